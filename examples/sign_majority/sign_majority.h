#pragma once

#include "parley/methods/method.h"

namespace parley {

// signSGD with majority vote (Bernstein et al. 2018): clients send only the direction in which local training moved
// each weight, and the server moves every weight by one fixed step, the way most clients voted.
void add_sign_majority(MethodRegistry& registry);

}  // namespace parley
