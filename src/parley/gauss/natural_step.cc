#include "parley/gauss/natural_step.h"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <cmath>
#include <vector>

#include "parley/gauss/eigen_maps.h"

namespace parley {
namespace {

using Dense = Matrix<double>;

double mean_diagonal(std::span<const float> packed, std::size_t width) {
  double sum = 0.0;
  for (std::size_t i = 0; i < width; ++i) sum += static_cast<double>(packed[packed_size(i + 1) - 1]);
  return sum / static_cast<double>(width);
}

Dense damped(std::span<const float> packed, std::size_t width, double scale, double ridge) {
  Dense full = unpack<double>(packed, width, scale);
  full.diagonal().array() += ridge;
  return full;
}

Eigen::LLT<Dense> factorise(std::span<const float> packed, std::size_t width, double scale, double ridge) {
  return Eigen::LLT<Dense>(damped(packed, width, scale, ridge));
}

}  // namespace

double damping_balance(const FisherFactors& factors) {
  const double inputs = mean_diagonal(factors.inputs, factors.width);
  const double outputs = mean_diagonal(factors.outputs, factors.rows);
  return inputs > 0.0 && outputs > 0.0 ? std::sqrt(inputs / outputs) : 1.0;
}

bool precondition(const FisherFactors& factors, double damping, std::span<const std::span<double>> gradients) {
  const double pi = damping_balance(factors), root = std::sqrt(damping);
  const auto inputs = factorise(factors.inputs, factors.width, 1.0, root * pi);
  const auto outputs = factorise(factors.outputs, factors.rows, 1.0, root / pi);
  if (inputs.info() != Eigen::Success || outputs.info() != Eigen::Success) return false;
  std::vector<Dense> solved;
  for (const auto gradient : gradients) {
    const Dense left = outputs.solve(Map<double>(gradient.data(), index(factors.rows), index(factors.width)));
    solved.push_back(inputs.solve(left.transpose()).transpose());
    if (!solved.back().allFinite()) return false;
  }
  for (std::size_t i = 0; i < solved.size(); ++i) {
    Map<double>(gradients[i].data(), index(factors.rows), index(factors.width)) = solved[i];
  }
  return true;
}

void times_fisher(const FisherFactors& factors, double damping, std::span<double> step) {
  const double pi = damping_balance(factors), root = std::sqrt(damping);
  Map<double> v(step.data(), index(factors.rows), index(factors.width));
  const Dense left = damped(factors.outputs, factors.rows, 1.0, root / pi) * v;
  v.noalias() = left * damped(factors.inputs, factors.width, 1.0, root * pi);
}

double fisher_norm(const FisherFactors& factors, std::span<const double> step) {
  const ConstMap<double> v(step.data(), index(factors.rows), index(factors.width));
  const Dense right = v * unpack<double>(factors.inputs, factors.width);
  const Dense left = unpack<double>(factors.outputs, factors.rows) * v;
  return (left.array() * right.array()).sum();
}

std::vector<double> fisher_spectrum(const FisherFactors& factors) {
  const auto eigenvalues = [](std::span<const float> packed, std::size_t width) -> Eigen::VectorXd {
    return Eigen::SelfAdjointEigenSolver<Dense>(unpack<double>(packed, width), Eigen::EigenvaluesOnly).eigenvalues();
  };
  const Eigen::VectorXd inputs = eigenvalues(factors.inputs, factors.width);
  const Eigen::VectorXd outputs = eigenvalues(factors.outputs, factors.rows);
  std::vector<double> all;
  for (const double b : outputs) {
    for (const double a : inputs) all.push_back(a * b);
  }
  return all;
}

void colour_by_fisher(const FisherFactors& factors, double examples, double prior, std::span<float> noise) {
  const double pi = damping_balance(factors), root = std::sqrt(prior), scale = std::sqrt(examples);
  const auto inputs = factorise(factors.inputs, factors.width, scale, root * pi);
  const auto outputs = factorise(factors.outputs, factors.rows, scale, root / pi);
  Map<float> map(noise.data(), index(factors.rows), index(factors.width));
  // P = LLᵀ on each side: L_B⁻ᵀ Z L_A⁻¹ has covariance P_A⁻¹ ⊗ P_B⁻¹.
  const Dense left = outputs.matrixU().solve(map.cast<double>());
  const Dense both = inputs.matrixU().solve(left.transpose()).transpose();
  map = both.cast<float>();
}

}  // namespace parley
