#pragma once

#include <span>

#include "parley/methods/method.h"

namespace parley {

// Agnostic federated learning (Mohri et al. 2019): min over θ, max over λ on the simplex, of Σ λ_k F_k(θ).
void add_afl(MethodRegistry& registry);

// The nearest point with λ ≥ 0 and Σ λ = 1 (Duchi et al. 2008). REQUIRES finite numbers, at least one.
void project_on_simplex(std::span<float> lambda);

}  // namespace parley
