// Natural gradients of matrices whose Fisher information is A ⊗ B (K-FAC, Martens & Grosse 2015): a layer's weights W
// (rows × width), A of its inputs (width²), B of the gradients at its outputs (rows²), packed as in matrix_product.h; A
// may be a sketch (sketch.h) instead.
//
// Damping d is put on both factors, A + π√d·I and B + √d/π·I, with π² = (tr A / width) / (tr B / rows), which makes the
// two shares alike whatever the factors' sizes are (§6.3 there).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace parley {

struct FisherFactors {
  std::size_t rows, width;
  std::span<const float> inputs;   // A
  std::span<const float> outputs;  // B
  std::size_t rank = 0;            // of the sketch that `inputs` is; 0: it is packed
};

// π; 1 where a factor has no trace at all.
double damping_balance(const FisherFactors& factors);

// In place, each from G to (B + √d/π·I)⁻¹ G (A + π√d·I)⁻¹. False when one of them is not positive definite to double
// precision, or a result is not finite; nothing is changed then.
bool precondition(const FisherFactors& factors, double damping, std::span<const std::span<double>> gradients);
// In place, the other way: from V to (B + √d/π·I) V (A + π√d·I).
void times_fisher(const FisherFactors& factors, double damping, std::span<double> step);

// tr(B V A Vᵀ): twice the KL divergence between the model's predictions before and after a small step V.
double fisher_norm(const FisherFactors& factors, std::span<const double> step);

// All eigenvalues of A ⊗ B, rows × width of them.
std::vector<double> fisher_spectrum(const FisherFactors& factors);

// Turns standard normals, rows × width, into a draw with the inverse of (√n·A + π√p·I) ⊗ (√n·B + √p/π·I) as covariance,
// in place: the posterior of n examples and the prior precision p (Ritter et al. 2018, Eq. 7). REQUIRES prior > 0.
void colour_by_fisher(const FisherFactors& factors, double examples, double prior, std::span<float> noise);

}  // namespace parley
