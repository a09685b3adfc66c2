#pragma once

#include "parley/methods/method.h"

namespace parley {

// FedProx (Li et al. 2020): clients minimise their loss + μ/2·‖θ − θ_s‖²; the server averages.
void add_fedprox(MethodRegistry& registry);

}  // namespace parley
