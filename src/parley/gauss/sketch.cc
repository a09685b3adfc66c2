#include "parley/gauss/sketch.h"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "parley/gauss/eigen_maps.h"
#include "parley/gauss/normal.h"

namespace parley {
namespace {

using Dense = Matrix<double>;

struct Nystrom {
  Dense root;    // E with E·Eᵀ = the approximation of A + shift
  double shift;  // that made it positive
};

// The numbers of Y are floats, so that is what is shifted by; where that is too little for Cholesky, by ten times as
// much.
Nystrom nystrom(const Dense& y, const Dense& directions) {
  const auto epsilon = static_cast<double>(std::numeric_limits<float>::epsilon());
  // ‖Y‖ is about ‖A‖ times that of a direction, √width.
  for (double shift = epsilon * y.norm();; shift *= 10.0) {
    const Dense shifted = y + shift * directions;
    const Dense core = directions.transpose() * shifted;
    const Eigen::LLT<Dense> factor(0.5 * (core + core.transpose()));
    if (factor.info() != Eigen::Success) continue;
    return {factor.matrixL().solve(shifted.transpose()).transpose(), shift};
  }
}

}  // namespace

std::vector<float> sketch_directions(std::size_t width, std::size_t rank) {
  std::vector<float> directions(width * rank);
  Stream stream(0, "directions of a sketch", width, rank);
  gauss::fill_normal(stream, directions);
  return directions;
}

SketchedMatrix::SketchedMatrix(std::span<const float> sketch, std::size_t width, std::size_t rank)
    : width_(width), trace_(static_cast<double>(sketch.back())) {
  assert(rank > 0 && rank <= width && sketch.size() == sketch_size(width, rank));
  const Dense y = ConstMap<float>(sketch.data(), index(width), index(rank)).cast<double>();
  if (y.isZero(0.0)) {
    rest_ = std::max(0.0, trace_) / static_cast<double>(width);
    return;
  }
  const std::vector<float> random = sketch_directions(width, rank);
  const auto [root, shift] = nystrom(y, ConstMap<float>(random.data(), index(width), index(rank)).cast<double>());
  // E = U S Vᵀ by EᵀE = V S² Vᵀ: the approximation's eigenvalues are S² less the shift, so nothing is lost by squaring.
  const Dense gram = root.transpose() * root;
  const Eigen::SelfAdjointEigenSolver<Dense> solver(gram);
  const double least = std::max(shift, 1e-10 * solver.eigenvalues().maxCoeff());
  std::vector<Eigen::Index> kept;
  for (Eigen::Index k = 0; k < gram.cols(); ++k) {
    if (solver.eigenvalues()[k] - shift > least) kept.push_back(k);
  }
  vectors_.resize(width * kept.size());
  Map<double> vectors(vectors_.data(), index(width), std::ssize(kept));
  for (std::size_t k = 0; k < kept.size(); ++k) {
    const double square = solver.eigenvalues()[kept[k]];
    vectors.col(index(k)) = root * solver.eigenvectors().col(kept[k]) / std::sqrt(square);
    values_.push_back(square - shift);
  }
  const double left = trace_ - std::accumulate(values_.begin(), values_.end(), 0.0);
  if (kept.size() < width) rest_ = std::max(0.0, left) / static_cast<double>(width - kept.size());
}

void SketchedMatrix::multiply(const OfEigenvalue& f, std::size_t rows, std::span<double> m) const {
  Map<double> all(m.data(), index(rows), index(width_));
  const double others = f(rest_);
  if (values_.empty()) {
    all *= others;
    return;
  }
  const ConstMap<double> vectors(vectors_.data(), index(width_), std::ssize(values_));
  Dense along = all * vectors;
  for (std::size_t k = 0; k < values_.size(); ++k) along.col(index(k)) *= f(values_[k]) - others;
  all *= others;
  all.noalias() += along * vectors.transpose();
}

}  // namespace parley
