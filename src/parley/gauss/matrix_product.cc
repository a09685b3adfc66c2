#include "parley/gauss/matrix_product.h"

#include <Eigen/Cholesky>

#include "parley/gauss/eigen_maps.h"

namespace parley {

void pack_symmetric(std::span<const float> full, std::size_t width, float scale, float ridge, std::span<float> packed) {
  assert(full.size() == width * width && packed.size() == packed_size(width));
  std::size_t at = 0;
  for (std::size_t i = 0; i < width; ++i) {
    for (std::size_t j = 0; j <= i; ++j) packed[at++] = scale * full[i * width + j] + (i == j ? ridge : 0.0f);
  }
}

void times_precision(std::span<float> weights, std::size_t rows, std::size_t width, std::span<const float> packed) {
  Map<float> w(weights.data(), index(rows), index(width));
  w = (w * unpack<float>(packed, width)).eval();
}

void times_precision(std::span<float> weights, std::size_t rows, std::size_t width, std::span<const double> packed) {
  Map<float> w(weights.data(), index(rows), index(width));
  const Matrix<double> product = w.cast<double>() * unpack<double>(packed, width);
  w = product.cast<float>();
}

bool solve_mean(std::span<const double> packed, std::size_t width, std::size_t rows, std::span<double> moments) {
  const Eigen::LLT<Matrix<double>> factor(unpack<double>(packed, width));
  if (factor.info() != Eigen::Success) return false;
  Map<double> map(moments.data(), index(rows), index(width));
  const Matrix<double> solution = factor.solve(map.transpose()).transpose();  // A is symmetric: (MA⁻¹)ᵀ = A⁻¹Mᵀ
  if (!solution.allFinite()) return false;
  map = solution;
  return true;
}

ProximalStep::ProximalStep(std::span<const float> vectors, std::span<const float> values, float rest, float strength)
    : width_(vectors.size() / values.size()), vectors_(vectors), rest_factor_(1.0f / (1.0f + strength * rest)) {
  for (const float value : values) factors_.push_back(1.0f / (1.0f + strength * value) - rest_factor_);
}

void ProximalStep::apply(std::span<float> difference, std::size_t rows) {
  assert(difference.size() == rows * width_);
  const std::size_t rank = factors_.size();
  coefficients_.resize(rows * rank);
  Map<float> d(difference.data(), index(rows), index(width_));
  Map<float> coefficients(coefficients_.data(), index(rows), index(rank));
  const ConstMap<float> v(vectors_.data(), index(rank), index(width_));
  coefficients.noalias() = d * v.transpose();
  coefficients *= Eigen::Map<const Eigen::VectorXf>(factors_.data(), index(rank)).asDiagonal();
  d *= rest_factor_;
  d.noalias() += coefficients * v;
}

void colour_by_precision(std::span<const float> packed, std::size_t width, double scale, double prior, std::size_t rows,
                         std::span<float> noise) {
  Matrix<double> precision = unpack<double>(packed, width, scale);
  precision.diagonal().array() += prior;
  const Eigen::LLT<Matrix<double>> factor(precision);
  Map<float> map(noise.data(), index(rows), index(width));
  // P = LLᵀ: a row z of noise becomes L⁻ᵀz, whose covariance is L⁻ᵀL⁻¹ = P⁻¹.
  const Matrix<double> coloured = factor.matrixU().solve(map.cast<double>().transpose()).transpose();
  map = coloured.cast<float>();
}

}  // namespace parley
