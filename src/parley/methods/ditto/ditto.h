#pragma once

#include "parley/methods/method.h"

namespace parley {

// Ditto (Li et al. 2021): beside federated averaging each client trains a model of its own, pulled towards the shared
// one: F_k(v) + λ/2·‖v − θ‖².
void add_ditto(MethodRegistry& registry);

}  // namespace parley
