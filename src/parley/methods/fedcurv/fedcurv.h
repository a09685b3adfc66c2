#pragma once

#include "parley/methods/method.h"

namespace parley {

// FedCurv (Shoham et al. 2019): each client's loss + μ Σ_{j≠n} (θ−θ_j)ᵀ diag(F_j) (θ−θ_j), a pull towards the other
// clients' optima; the server averages. The sum over the others is the sum over all, less one's own.
void add_fedcurv(MethodRegistry& registry);

}  // namespace parley
