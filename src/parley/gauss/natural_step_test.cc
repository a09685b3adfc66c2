#include "parley/gauss/natural_step.h"

#include <gtest/gtest.h>

#include <Eigen/LU>
#include <cmath>
#include <vector>

#include "parley/gauss/eigen_maps.h"
#include "parley/gauss/normal.h"
#include "parley/tensor/flat.h"

namespace parley {
namespace {

constexpr std::size_t kRows = 3, kWidth = 4;

// Second moments of `samples` random vectors, packed.
std::vector<float> moments(Stream& stream, std::size_t width, std::size_t samples, float scale) {
  std::vector<float> full(width * width, 0.0f), packed(packed_size(width)), x(width);
  for (std::size_t n = 0; n < samples; ++n) {
    for (auto& value : x) value = scale * static_cast<float>(stream.normal());
    for (std::size_t i = 0; i < width; ++i) {
      for (std::size_t j = 0; j < width; ++j) full[i * width + j] += x[i] * x[j] / static_cast<float>(samples);
    }
  }
  pack_symmetric(full, width, 1.0f, 0.0f, packed);
  return packed;
}

struct Example {
  Stream stream{5, "natural step"};
  std::vector<float> a = moments(stream, kWidth, 20, 2.0f), b = moments(stream, kRows, 20, 0.1f);
  FisherFactors factors{.rows = kRows, .width = kWidth, .inputs = a, .outputs = b};

  // B ⊗ A over the row-major matrix, with the damping of each factor.
  Matrix<double> kronecker(double input_ridge, double output_ridge) const {
    Matrix<double> inputs = unpack<double>(factors.inputs, kWidth), outputs = unpack<double>(factors.outputs, kRows);
    inputs.diagonal().array() += input_ridge;
    outputs.diagonal().array() += output_ridge;
    Matrix<double> whole(kRows * kWidth, kRows * kWidth);
    for (Eigen::Index i = 0; i < whole.rows(); ++i) {
      for (Eigen::Index j = 0; j < whole.cols(); ++j) {
        const auto w = static_cast<Eigen::Index>(kWidth);
        whole(i, j) = outputs(i / w, j / w) * inputs(i % w, j % w);
      }
    }
    return whole;
  }
  std::vector<double> normals() {
    std::vector<double> z(kRows * kWidth);
    for (auto& x : z) x = stream.normal();
    return z;
  }
};

TEST(NaturalStep, IsTheSolutionOfTheWholeKroneckerProduct) {
  Example e;
  for (const double damping : {0.0, 0.01, 1.0}) {
    auto g = e.normals();
    const double pi = damping_balance(e.factors), root = std::sqrt(damping);
    const Eigen::VectorXd expected = e.kronecker(root * pi, root / pi)
                                         .fullPivLu()
                                         .solve(Eigen::Map<const Eigen::VectorXd>(g.data(), kRows * kWidth));
    const auto before = g;
    ASSERT_TRUE(precondition(e.factors, damping, std::vector<std::span<double>>{g}));
    for (std::size_t i = 0; i < g.size(); ++i) {
      EXPECT_NEAR(g[i], expected[static_cast<Eigen::Index>(i)], 1e-9 * expected.norm());
    }
    times_fisher(e.factors, damping, g);
    for (std::size_t i = 0; i < g.size(); ++i) EXPECT_NEAR(g[i], before[i], 1e-9);
  }
}

TEST(NaturalStep, DampingIsBalancedWhateverTheFactorsSizes) {
  Example e;
  const double pi = damping_balance(e.factors);
  std::vector<float> larger = e.a;
  for (auto& x : larger) x *= 16.0f;
  EXPECT_NEAR(damping_balance({kRows, kWidth, larger, e.b}), 4.0 * pi, 1e-6 * pi);
  const std::vector<float> nothing(packed_size(kWidth), 0.0f);
  EXPECT_EQ(damping_balance({kRows, kWidth, nothing, e.b}), 1.0);
}

TEST(NaturalStep, NormIsThatOfTheWholeKroneckerProduct) {
  Example e;
  const auto v = e.normals();
  const Eigen::Map<const Eigen::VectorXd> flat(v.data(), kRows * kWidth);
  const double expected = flat.dot(e.kronecker(0.0, 0.0) * flat);
  EXPECT_NEAR(fisher_norm(e.factors, v), expected, 1e-9 * expected);
}

TEST(NaturalStep, AFactorThatIsNotPositiveDefiniteIsReportedAndNothingChanged) {
  Example e;
  std::vector<float> negative = e.a;
  negative[0] = -1.0f;
  auto g = e.normals();
  const auto before = g;
  EXPECT_FALSE(precondition({kRows, kWidth, negative, e.b}, 1e-6, std::vector<std::span<double>>{g}));
  EXPECT_EQ(g, before);
}

// Second moments of many draws against the inverse of the damped factors.
TEST(NaturalStep, DrawsHaveTheCovarianceOfThePosterior) {
  Example e;
  constexpr double kExamples = 50.0, kPrior = 2.0;
  constexpr std::size_t kDraws = 20000;
  const double pi = damping_balance(e.factors), root = std::sqrt(kPrior / kExamples);
  const Matrix<double> covariance = (kExamples * e.kronecker(root * pi, root / pi)).inverse();
  Matrix<double> found = Matrix<double>::Zero(kRows * kWidth, kRows * kWidth);
  for (std::size_t n = 0; n < kDraws; ++n) {
    Flat noise(kRows * kWidth);
    gauss::fill_normal(e.stream, noise);
    colour_by_fisher(e.factors, kExamples, kPrior, noise);
    const Eigen::VectorXd z = Eigen::Map<const Eigen::VectorXf>(noise.data(), kRows * kWidth).cast<double>();
    found += z * z.transpose() / static_cast<double>(kDraws);
  }
  // The standard deviation of a second moment is at most √2 times the variance, over √draws; five of them.
  const double tolerance = 5.0 * std::sqrt(2.0 / kDraws) * covariance.diagonal().maxCoeff();
  EXPECT_LT((found - covariance).cwiseAbs().maxCoeff(), tolerance);
}

}  // namespace
}  // namespace parley
