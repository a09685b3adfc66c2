// Gaussian products of matrices with precision A ⊗ B: a layer's weights W (rows × width), A of its inputs (width²), B
// of the gradients at its outputs (rows²), both packed as in matrix_product.h.
//
// A sum of Kronecker products is none itself, so the product of several such Gaussians keeps every client's factors,
// and its mean, the solution of Σ w B_n W A_n = Σ w B_n W_n A_n, takes conjugate gradients.
#pragma once

#include <cstddef>
#include <span>

namespace parley {

struct KroneckerTerm {
  double weight;
  std::span<const float> inputs;   // A
  std::span<const float> outputs;  // B
};

// In place, from W to Σ w B·W·A; in double but for the result.
void times_kronecker(std::span<float> weights, std::size_t rows, std::size_t width,
                     std::span<const KroneckerTerm> terms);

struct CgReport {
  std::size_t steps = 0;
  double residual = 0.0;  // ‖moments − Σ w B W A‖ / ‖moments‖
};

// In place, from the moments Σ w B W A back to W, by at most `steps` conjugate gradients, preconditioned with
// (Σ w A) ⊗ (Σ w B). Ends early once the residual is below `tolerance`. Each step costs two matrix products a term.
// REQUIRES positive definite factors.
CgReport solve_kronecker(std::span<const KroneckerTerm> terms, std::size_t rows, std::size_t width, std::size_t steps,
                         double tolerance, std::span<double> moments);

}  // namespace parley
