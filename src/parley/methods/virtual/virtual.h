#pragma once

#include "parley/methods/method.h"

namespace parley {

// VIRTUAL (Corinzia et al. 2019): the shared weights have a posterior s(θ) = Π s_i(θ), one Gaussian factor a client,
// and each client may have private weights φ_i with a posterior c_i besides. All in natural parameters ξ = 1/σ², χ =
// μ/σ².
//
//   client:  cavity = s/s_i · p^{1/K}, K clients hold data
//            minimise E[−log p(D_i|θ,φ_i)]/n_i + β/n_i·(KL(q ‖ cavity) + KL(c_i ‖ p))                        (Eq. 3)
//            s_i new = q/(s/s_i),  Δ_i = s_i new/s_i old = q/s
//   server:  s ← s·ΠΔ_i^d
//
// The client keeps s_i·Δ_i^d as well, so that s = Πs_i always (damping = "consistent"); the paper's own damping does
// not keep that. d = 1/|cohort| by default: with β ≪ 1 the clients' deltas tell of the same data's weight over and
// over, and their product overshoots by the size of the cohort; d = 1 is right near the exact posterior (β = 1).
//
// At first everyone's factor is s⁰^{1/K}, about the run's initial weights with σ = e^ρ (with ivon, a σ from n). A
// client trains the variational form of the model (model/variational.h); the state's "theta" is the mean, so the
// server's model is evaluated as any.
void add_virtual(MethodRegistry& registry);

}  // namespace parley
