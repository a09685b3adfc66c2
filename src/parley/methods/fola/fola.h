#pragma once

#include "parley/methods/method.h"

namespace parley {

// FOLA (Liu & Zheng 2021): clients send Gaussian posteriors, the server multiplies them.
//
//   server:  P_S = Σ a_n P_n,  μ_S = P_S⁻¹ Σ a_n P_n μ_n                                     (Eq. 9)
//   client:  from μ_S, minimise loss + λ/2 (θ−μ_S)ᵀ P_S (θ−μ_S)                               (Eq. 12)
//            F_n = the squared gradients, averaged along the path (online Laplace)            (Eq. 15)
//            P_n = F_n/r + (r−1)/r · P_S in round r                                           (Eq. 17)
//
// P is a diagonal precision. Algorithm 1 of the paper writes the squared gradients into Σ; read literally, as a
// covariance, that is worse than plain averaging.
void add_fola(MethodRegistry& registry);

}  // namespace parley
