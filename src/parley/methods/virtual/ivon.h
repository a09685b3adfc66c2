#pragma once

#include <span>

#include "parley/gauss/diagonal.h"
#include "parley/model/variational.h"

namespace parley {

// Variational online Newton (IVON, Shen et al. 2024) on a variational network: descent by the natural gradient, which
// learns the precision at the pace of the mean, for the price of Adam.
//
// With the free energy E[loss] + KL(q ‖ prior)/λ, each weight has a curvature h with ξ = λh + ξ_prior, of which
// ĥ = (∂E[loss]/∂ρ)/σ² is a noisy measurement: that derivative is E[loss″]σ².
//
//   g ← β₁g + (1−β₁)ĝ
//   s ← s + (1−β₂)e + ½(1−β₂)²e²/s,   s = ξ/λ, e = ĥ + ξ_prior/λ − s      (positive whatever ĥ is; |(1−β₂)e| ≤ s)
//   μ ← μ − lr·(g/(1−β₁ᵗ) + (ξ_prior μ − χ_prior)/λ)/s
class Ivon {
 public:
  struct Decay {
    float gradient, curvature;  // β₁ and β₂
  };
  // `prior` may be improper; it and the model must outlive this.
  Ivon(Variational& model, gauss::ConstNaturalView prior, double lambda, Decay decay);
  // One step from the gradient of a batch's mean loss.
  void step(std::span<const float> gradients, float lr);

 private:
  Variational& model_;
  gauss::ConstNaturalView prior_;
  float lambda_;
  Decay decay_;
  Flat momentum_;
  double bias_ = 1.0;  // β₁ᵗ
};

}  // namespace parley
