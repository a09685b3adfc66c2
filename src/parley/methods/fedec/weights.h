// From what was inferred of the clients to their probabilistic weights π (FeDEC, Eq. 10 and METHODS' readings of it).
// Each returns K numbers ≥ 0 that sum to 1.
#pragma once

#include <span>
#include <vector>

#include "parley/methods/fedec/inference.h"

namespace parley {

// argmin KL(target ‖ Σ_k π_k z_k) over the simplex, by EM from `start` (> 0): π_k ← π_k Σ_i t_i z_ki/(Σ_j π_j z_ji).
// Where several π are optimal it is one near the start.
std::vector<double> match_weights(const ClientRows& z, std::span<const double> target, std::span<const double> start);
// π_k ∝ exp(elbo_k/temperature): who is explained best counts most.
std::vector<double> elbo_weights(std::span<const double> elbo, double temperature);

}  // namespace parley
