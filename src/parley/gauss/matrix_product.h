// Gaussian products of matrices: a layer's weights W (out × in) with precision A ⊗ I, A symmetric and positive.
//
// A Gaussian N(W_n, (A_n ⊗ I)⁻¹) has natural parameters A_n and W_n A_n. The product of several is again a sum,
// A = ΣA_n and WA = ΣW_n A_n, and its mean is W = (ΣW_n A_n)(ΣA_n)⁻¹: for linear regression clients, whose A_n is the
// Gram matrix of their inputs, the pooled least-squares solution exactly. (RegMean, Jin et al. 2023, merges models so.)
//
// Symmetric matrices are stored packed: the lower triangle, row by row.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace parley {

constexpr std::size_t packed_size(std::size_t width) {
  return width * (width + 1) / 2;
}

// The lower triangle of a full row-major matrix, times `scale`, with `ridge` added to the diagonal.
void pack_symmetric(std::span<const float> full, std::size_t width, float scale, float ridge, std::span<float> packed);

// In place, from W (`rows` × `width`, row-major) to W·A.
void times_precision(std::span<float> weights, std::size_t rows, std::size_t width, std::span<const float> packed);
// The same in double but for the result: all that is lost on the way back is the rounding of W·A to float.
void times_precision(std::span<float> weights, std::size_t rows, std::size_t width, std::span<const double> packed);

// In place, moments·A⁻¹: from W·A back to W. Returns false when A is not positive definite; nothing is changed then.
bool solve_mean(std::span<const double> packed, std::size_t width, std::size_t rows, std::span<double> moments);

// An implicit step of the prior ½·strength·tr((W−W₀) A (W−W₀)ᵀ): W ← W₀ + (W−W₀)(I + strength·A)⁻¹. Stable for any
// strength, where the explicit step diverges above 2/‖A‖. A is given by its largest eigenvectors: two thin products.
class ProximalStep {
 public:
  ProximalStep(std::span<const float> vectors, std::span<const float> values, float rest, float strength);
  // `difference` is W − W₀, rows × width, in place.
  void apply(std::span<float> difference, std::size_t rows);

 private:
  std::size_t width_;
  std::span<const float> vectors_;
  std::vector<float> factors_;  // by which each eigenvector's part is scaled beyond the rest
  float rest_factor_;
  std::vector<float> coefficients_;  // scratch, rows × rank
};

// Turns standard normals, rows × width, into a draw from N(0, (scale·A + prior·I)⁻¹ ⊗ I), in place. REQUIRES prior > 0.
void colour_by_precision(std::span<const float> packed, std::size_t width, double scale, double prior, std::size_t rows,
                         std::span<float> noise);

}  // namespace parley
