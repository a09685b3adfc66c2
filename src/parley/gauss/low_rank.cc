#include "parley/gauss/low_rank.h"

#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <algorithm>

#include "parley/gauss/eigen_maps.h"
#include "parley/gauss/normal.h"

namespace parley {
namespace {

constexpr int kIterations = 3;            // a spectrum that falls as images' do is found to float precision in two
constexpr std::size_t kOversampling = 8;  // extra columns, which make the last wanted ones converge

Matrix<float> orthonormal(const Matrix<float>& columns) {
  const Eigen::HouseholderQR<Matrix<float>> qr(columns);
  return qr.householderQ() * Matrix<float>::Identity(columns.rows(), columns.cols());
}

}  // namespace

LowRank low_rank(std::span<const float> packed, std::size_t width, std::size_t rank) {
  assert(rank > 0 && rank <= width);
  const Matrix<float> a = unpack<float>(packed, width);
  const std::size_t columns = std::min(width, rank + kOversampling);
  Matrix<float> basis(index(width), index(columns));
  Stream start(0, "low rank");
  gauss::fill_normal(start, {basis.data(), width * columns});
  for (int i = 0; i < kIterations; ++i) basis = orthonormal(a * basis);
  // Rayleigh–Ritz: the eigenvectors within the subspace.
  const Matrix<float> small = basis.transpose() * a * basis;
  const Eigen::SelfAdjointEigenSolver<Matrix<float>> solver(small);
  const Matrix<float> vectors = basis * solver.eigenvectors();

  LowRank result{.vectors = std::vector<float>(rank * width), .values = std::vector<float>(rank)};
  double kept = 0.0;
  for (std::size_t k = 0; k < rank; ++k) {
    const auto column = index(columns - 1 - k);  // Eigen's are smallest first
    Map<float>(result.vectors.data() + k * width, 1, index(width)) = vectors.col(column).transpose();
    result.values[k] = std::max(0.0f, solver.eigenvalues()[column]);
    kept += result.values[k];
  }
  const double left = static_cast<double>(a.trace()) - kept;
  if (width > rank) result.rest = static_cast<float>(std::max(0.0, left) / static_cast<double>(width - rank));
  return result;
}

void expand(const LowRank& factors, std::size_t width, std::span<float> packed) {
  const std::size_t rank = factors.values.size();
  const ConstMap<float> v(factors.vectors.data(), index(rank), index(width));
  const Eigen::Map<const Eigen::VectorXf> values(factors.values.data(), index(rank));
  Matrix<float> full = v.transpose() * (values.array() - factors.rest).matrix().asDiagonal() * v;
  full.diagonal().array() += factors.rest;
  pack_symmetric({full.data(), width * width}, width, 1.0f, 0.0f, packed);
}

}  // namespace parley
