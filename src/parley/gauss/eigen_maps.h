// Spans as Eigen's matrices. Symmetric matrices are packed: the lower triangle, row by row.
#pragma once

#include <Eigen/Core>
#include <cassert>
#include <span>

#include "parley/gauss/matrix_product.h"

namespace parley {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using Map = Eigen::Map<Matrix<T>>;
template <class T>
using ConstMap = Eigen::Map<const Matrix<T>>;

inline Eigen::Index index(std::size_t n) {
  return static_cast<Eigen::Index>(n);
}

// The whole symmetric matrix of a packed one, times `scale`.
template <class T, class From>
Matrix<T> unpack(std::span<const From> packed, std::size_t width, T scale = T{1}) {
  assert(packed.size() == packed_size(width));
  Matrix<T> full(index(width), index(width));
  std::size_t at = 0;
  for (Eigen::Index i = 0; i < index(width); ++i) {
    for (Eigen::Index j = 0; j <= i; ++j) full(i, j) = full(j, i) = scale * static_cast<T>(packed[at++]);
  }
  return full;
}

}  // namespace parley
