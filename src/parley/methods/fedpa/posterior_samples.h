// Samples of a client's posterior, and the step that they call for.
//
// Samples x_1 … x_ℓ have the mean x̄ and the scatter matrix M = Σ (x_i − x̄)(x_i − x̄)ᵀ. The posterior's covariance is
// estimated by shrinkage towards the identity, Σ̂ = ρ_ℓ·I + (1 − ρ_ℓ)·M/(ℓ − 1) with ρ_ℓ = 1/(1 + (ℓ − 1)ρ)
// (Al-Shedivat et al. 2021). That is ρ_ℓ·(I + ρM), and each sample changes M by a matrix of rank one; so
// (I + ρM)⁻¹ = I − Σ_k c_k v_k v_kᵀ is kept as the vectors v_k: ℓd numbers and O(ℓ²d) operations, never a d×d matrix.
#pragma once

#include <span>
#include <vector>

#include "parley/tensor/flat.h"

namespace parley {

class PosteriorSamples {
 public:
  // `rho`: 0 leaves the identity, more trusts the samples' own covariance more.
  PosteriorSamples(std::size_t size, double rho) : rho_(rho), mean_(size, 0.0) {}

  void add(std::span<const double> sample);
  // Σ̂⁻¹(start − x̄). REQUIRES a sample.
  FlatDouble delta(std::span<const float> start) const;

 private:
  // One rank-one change of the inverse: −c·v·vᵀ.
  struct Change {
    FlatDouble v;
    double c;
  };
  // x ← (I + ρM)⁻¹ x
  void solve(FlatDouble& x) const;

  double rho_;
  std::size_t count_ = 0;
  FlatDouble mean_;
  std::vector<Change> changes_;
};

}  // namespace parley
