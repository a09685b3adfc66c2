#include "parley/gauss/matrix_product.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <cassert>

namespace parley {
namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using Map = Eigen::Map<Matrix<T>>;
template <class T>
using ConstMap = Eigen::Map<const Matrix<T>>;

Eigen::Index index(std::size_t n) {
  return static_cast<Eigen::Index>(n);
}

// The whole symmetric matrix of a packed one, times `scale`.
template <class T>
Matrix<T> unpack(std::span<const T> packed, std::size_t width, T scale = T{1}) {
  assert(packed.size() == packed_size(width));
  Matrix<T> full(index(width), index(width));
  std::size_t at = 0;
  for (Eigen::Index i = 0; i < index(width); ++i) {
    for (Eigen::Index j = 0; j <= i; ++j) full(i, j) = full(j, i) = scale * packed[at++];
  }
  return full;
}

}  // namespace

void pack_symmetric(std::span<const float> full, std::size_t width, float scale, float ridge, std::span<float> packed) {
  assert(full.size() == width * width && packed.size() == packed_size(width));
  std::size_t at = 0;
  for (std::size_t i = 0; i < width; ++i) {
    for (std::size_t j = 0; j <= i; ++j) packed[at++] = scale * full[i * width + j] + (i == j ? ridge : 0.0f);
  }
}

void times_precision(std::span<const float> weights, std::size_t rows, std::size_t width, std::span<const float> packed,
                     std::span<float> moments) {
  const Matrix<float> a = unpack(packed, width);
  Map<float>(moments.data(), index(rows), index(width)).noalias() =
      ConstMap<float>(weights.data(), index(rows), index(width)) * a;
}

bool solve_mean(std::span<const double> packed, std::size_t width, std::size_t rows, std::span<double> moments) {
  const Eigen::LLT<Matrix<double>> factor(unpack(packed, width));
  if (factor.info() != Eigen::Success) return false;
  Map<double> map(moments.data(), index(rows), index(width));
  const Matrix<double> solution = factor.solve(map.transpose()).transpose();  // A is symmetric: (MA⁻¹)ᵀ = A⁻¹Mᵀ
  if (!solution.allFinite()) return false;
  map = solution;
  return true;
}

ProximalStep::ProximalStep(std::span<const float> packed, std::size_t width, float strength)
    : width_(width), shrink_(width * width) {
  Matrix<float> a = unpack(packed, width, strength);
  a.diagonal().array() += 1.0f;
  Map<float>(shrink_.data(), index(width), index(width)) =
      Eigen::LLT<Matrix<float>>(a).solve(Matrix<float>::Identity(index(width), index(width)));
}

void ProximalStep::apply(std::span<float> difference, std::size_t rows, std::span<float> scratch) const {
  assert(difference.size() == rows * width_ && scratch.size() >= difference.size());
  Map<float> result(scratch.data(), index(rows), index(width_));
  Map<float> d(difference.data(), index(rows), index(width_));
  result.noalias() = d * ConstMap<float>(shrink_.data(), index(width_), index(width_));
  d = result;
}

}  // namespace parley
