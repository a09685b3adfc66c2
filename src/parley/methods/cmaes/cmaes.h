#pragma once

#include "parley/methods/method.h"

namespace parley {

// Separable CMA-ES (Ros & Hansen 2008) on the federated fitness: candidates are drawn from a diagonal Gaussian by a
// stream that server and nodes share, so the mean and the variances are all that is broadcast.
void add_cmaes(MethodRegistry& registry);

}  // namespace parley
