#pragma once

#include "parley/methods/method.h"

namespace parley {

// FedPA (Al-Shedivat et al. 2021): clients sample from their posteriors, and send Σ̂⁻¹(θ − μ̂) where FedAvg sends θ − y.
void add_fedpa(MethodRegistry& registry);

}  // namespace parley
