// A symmetric positive matrix by its largest eigenvectors: A ≈ V diag(values) Vᵀ + rest·(I − VVᵀ), with the trace of A.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace parley {

struct LowRank {
  std::vector<float> vectors;  // rank × width, a row an eigenvector, orthonormal
  std::vector<float> values;   // largest first
  float rest = 0.0f;           // the mean of the eigenvalues that are left out
};

// Numbers on the wire.
inline std::size_t low_rank_size(std::size_t width, std::size_t rank) {
  return rank * (width + 1) + 1;
}

// By randomised subspace iteration (Halko, Martinsson & Tropp 2011), always from the same start: a few products instead
// of a full decomposition. `packed` as in matrix_product.h; REQUIRES 0 < rank ≤ width.
LowRank low_rank(std::span<const float> packed, std::size_t width, std::size_t rank);

// Back to the packed form.
void expand(const LowRank& factors, std::size_t width, std::span<float> packed);

}  // namespace parley
