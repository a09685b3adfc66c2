#include "parley/gauss/natural_step.h"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <cmath>
#include <vector>

#include "parley/gauss/eigen_maps.h"
#include "parley/gauss/sketch.h"

namespace parley {
namespace {

using Dense = Matrix<double>;

double mean_diagonal(std::span<const float> packed, std::size_t width) {
  double sum = 0.0;
  for (std::size_t i = 0; i < width; ++i) sum += static_cast<double>(packed[packed_size(i + 1) - 1]);
  return sum / static_cast<double>(width);
}

double mean_of_inputs(const FisherFactors& factors) {
  if (factors.rank == 0) return mean_diagonal(factors.inputs, factors.width);
  return static_cast<double>(factors.inputs.back()) / static_cast<double>(factors.width);
}

Dense damped(std::span<const float> packed, std::size_t width, double scale, double ridge) {
  Dense full = unpack<double>(packed, width, scale);
  full.diagonal().array() += ridge;
  return full;
}

Eigen::LLT<Dense> factorise(std::span<const float> packed, std::size_t width, double scale, double ridge) {
  return Eigen::LLT<Dense>(damped(packed, width, scale, ridge));
}

SketchedMatrix sketched(const FisherFactors& factors) {
  return {factors.inputs, factors.width, factors.rank};
}

// M ← M·f(A), of a sketched A.
void multiply(const SketchedMatrix& a, const SketchedMatrix::OfEigenvalue& f, Dense& m) {
  a.multiply(f, static_cast<std::size_t>(m.rows()), {m.data(), static_cast<std::size_t>(m.size())});
}

// Each M ← M·(A + ridge)⁻¹. False when that is not positive definite.
bool divide_by_inputs(const FisherFactors& factors, double ridge, std::span<Dense> all) {
  if (factors.rank > 0) {
    const SketchedMatrix a = sketched(factors);
    if (!(a.rest() + ridge > 0.0)) return false;  // the least of its eigenvalues
    for (auto& m : all)
      multiply(
          a, [&](double value) { return 1.0 / (value + ridge); }, m);
    return true;
  }
  const auto a = factorise(factors.inputs, factors.width, 1.0, ridge);
  if (a.info() != Eigen::Success) return false;
  for (auto& m : all) m = a.solve(m.transpose()).transpose().eval();
  return true;
}

// M·(A + ridge).
Dense times_inputs(const FisherFactors& factors, double ridge, const Dense& m) {
  if (factors.rank == 0) return m * damped(factors.inputs, factors.width, 1.0, ridge);
  Dense product = m;
  multiply(
      sketched(factors), [&](double value) { return value + ridge; }, product);
  return product;
}

std::vector<double> eigenvalues(std::span<const float> packed, std::size_t width) {
  const Eigen::SelfAdjointEigenSolver<Dense> solver(unpack<double>(packed, width), Eigen::EigenvaluesOnly);
  return {solver.eigenvalues().begin(), solver.eigenvalues().end()};
}

std::vector<double> input_eigenvalues(const FisherFactors& factors) {
  if (factors.rank == 0) return eigenvalues(factors.inputs, factors.width);
  const SketchedMatrix a = sketched(factors);
  std::vector<double> all = a.values();
  all.resize(factors.width, a.rest());
  return all;
}

}  // namespace

double damping_balance(const FisherFactors& factors) {
  const double inputs = mean_of_inputs(factors);
  const double outputs = mean_diagonal(factors.outputs, factors.rows);
  return inputs > 0.0 && outputs > 0.0 ? std::sqrt(inputs / outputs) : 1.0;
}

bool precondition(const FisherFactors& factors, double damping, std::span<const std::span<double>> gradients) {
  const double pi = damping_balance(factors), root = std::sqrt(damping);
  const auto outputs = factorise(factors.outputs, factors.rows, 1.0, root / pi);
  if (outputs.info() != Eigen::Success) return false;
  std::vector<Dense> solved;
  for (const auto gradient : gradients) {
    solved.push_back(outputs.solve(Map<double>(gradient.data(), index(factors.rows), index(factors.width))));
  }
  if (!divide_by_inputs(factors, root * pi, solved)) return false;
  for (const auto& one : solved) {
    if (!one.allFinite()) return false;
  }
  for (std::size_t i = 0; i < solved.size(); ++i) {
    Map<double>(gradients[i].data(), index(factors.rows), index(factors.width)) = solved[i];
  }
  return true;
}

void times_fisher(const FisherFactors& factors, double damping, std::span<double> step) {
  const double pi = damping_balance(factors), root = std::sqrt(damping);
  Map<double> v(step.data(), index(factors.rows), index(factors.width));
  v = times_inputs(factors, root * pi, damped(factors.outputs, factors.rows, 1.0, root / pi) * v);
}

double fisher_norm(const FisherFactors& factors, std::span<const double> step) {
  const ConstMap<double> v(step.data(), index(factors.rows), index(factors.width));
  const Dense right = times_inputs(factors, 0.0, v);
  const Dense left = unpack<double>(factors.outputs, factors.rows) * v;
  return (left.array() * right.array()).sum();
}

std::vector<double> fisher_spectrum(const FisherFactors& factors) {
  const std::vector<double> inputs = input_eigenvalues(factors), outputs = eigenvalues(factors.outputs, factors.rows);
  std::vector<double> all;
  for (const double b : outputs) {
    for (const double a : inputs) all.push_back(a * b);
  }
  return all;
}

void colour_by_fisher(const FisherFactors& factors, double examples, double prior, std::span<float> noise) {
  const double pi = damping_balance(factors), root = std::sqrt(prior), scale = std::sqrt(examples);
  const auto outputs = factorise(factors.outputs, factors.rows, scale, root / pi);
  Map<float> map(noise.data(), index(factors.rows), index(factors.width));
  // P = LLᵀ on each side: L_B⁻ᵀ Z L_A⁻¹ has covariance P_A⁻¹ ⊗ P_B⁻¹. Of a sketch the root is P_A^½.
  Dense both = outputs.matrixU().solve(map.cast<double>());
  if (factors.rank > 0) {
    multiply(
        sketched(factors), [&](double value) { return 1.0 / std::sqrt(scale * value + root * pi); }, both);
  } else {
    const auto inputs = factorise(factors.inputs, factors.width, scale, root * pi);
    both = inputs.matrixU().solve(both.transpose()).transpose().eval();
  }
  map = both.cast<float>();
}

}  // namespace parley
