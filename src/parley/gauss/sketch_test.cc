#include "parley/gauss/sketch.h"

#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <cmath>

#include "parley/base/random.h"
#include "parley/gauss/eigen_maps.h"
#include "parley/gauss/natural_step.h"

namespace parley {
namespace {

constexpr std::size_t kWidth = 12;

// Second moments of `samples` rows whose directions fade.
Matrix<double> moments(std::uint64_t seed, std::size_t samples, double fading = 0.8) {
  Stream stream(seed, "moments");
  Matrix<double> x(index(samples), index(kWidth));
  for (Eigen::Index i = 0; i < x.rows(); ++i) {
    for (Eigen::Index j = 0; j < x.cols(); ++j) x(i, j) = stream.normal() * std::pow(fading, static_cast<double>(j));
  }
  return x.transpose() * x / static_cast<double>(samples);
}

std::vector<float> sketch_of(const Matrix<double>& a, std::size_t rank) {
  const auto directions = sketch_directions(kWidth, rank);
  const Matrix<float> y =
      (a * ConstMap<float>(directions.data(), index(kWidth), index(rank)).cast<double>()).cast<float>();
  std::vector<float> sketch(y.data(), y.data() + y.size());
  sketch.push_back(static_cast<float>(a.trace()));
  return sketch;
}

Matrix<double> rebuilt(const SketchedMatrix& sketched) {
  Matrix<double> identity = Matrix<double>::Identity(index(kWidth), index(kWidth));
  sketched.multiply([](double value) { return value; }, kWidth, {identity.data(), kWidth * kWidth});
  return identity;
}

TEST(Sketch, OfFullRankIsTheMatrix) {
  const auto a = moments(1, 40);
  const Matrix<double> found = rebuilt(SketchedMatrix(sketch_of(a, kWidth), kWidth, kWidth));
  // Float products, whose rounding the inverse of a square Gaussian matrix of this width enlarges by about it.
  EXPECT_LT((found - a).norm(), 1e-4 * a.norm());
}

TEST(Sketch, RecoversAMatrixOfLowerRank) {
  const auto a = moments(2, 4);
  const SketchedMatrix sketched(sketch_of(a, 6), kWidth, 6);
  EXPECT_EQ(sketched.values().size(), 4u);
  EXPECT_LT((rebuilt(sketched) - a).norm(), 1e-4 * a.norm());  // what it is shifted by
  EXPECT_LT(sketched.rest(), 1e-5 * a.norm());
}

TEST(Sketch, KeepsTheTraceAndIsNeverBelowZero) {
  const auto a = moments(3, 40);
  for (std::size_t rank = 1; rank < kWidth; ++rank) {
    const SketchedMatrix sketched(sketch_of(a, rank), kWidth, rank);
    EXPECT_NEAR(rebuilt(sketched).trace(), a.trace(), 1e-5 * a.trace()) << rank;
    EXPECT_GE(sketched.rest(), 0.0);
    for (const double value : sketched.values()) EXPECT_GT(value, 0.0);
  }
}

TEST(Sketch, OfASumIsTheSumOfSketches) {
  const auto a = moments(4, 10), b = moments(5, 20);
  const auto of_a = sketch_of(a, 5), of_b = sketch_of(b, 5), of_both = sketch_of(a + b, 5);
  for (std::size_t i = 0; i < of_both.size(); ++i) EXPECT_NEAR(of_a[i] + of_b[i], of_both[i], 1e-5);
}

TEST(Sketch, OfNothingIsItsTraceSpreadEvenly) {
  std::vector<float> sketch(sketch_size(kWidth, 3), 0.0f);
  sketch.back() = 6.0f;
  const SketchedMatrix sketched(sketch, kWidth, 3);
  EXPECT_TRUE(rebuilt(sketched).isApprox(0.5 * Matrix<double>::Identity(index(kWidth), index(kWidth)), 1e-12));
}

// Whatever a natural step does with A, it does with a sketch of it that has full rank, and with one that is rebuilt.
class SketchedFactors : public testing::TestWithParam<std::size_t> {
 protected:
  static constexpr std::size_t kRows = 3;
  std::size_t rank_ = GetParam();
  std::vector<float> sketch_ = sketch_of(moments(6, 40), rank_), packed_ = packed();
  std::vector<float> b_{2.0f, 0.5f, 1.0f, 0.1f, 0.2f, 3.0f};
  FisherFactors sketched_{.rows = kRows, .width = kWidth, .inputs = sketch_, .outputs = b_, .rank = rank_};
  FisherFactors whole_{.rows = kRows, .width = kWidth, .inputs = packed_, .outputs = b_};

  std::vector<float> packed() const {
    const Matrix<float> a = rebuilt(SketchedMatrix(sketch_, kWidth, rank_)).cast<float>();
    std::vector<float> result(packed_size(kWidth));
    pack_symmetric({a.data(), kWidth * kWidth}, kWidth, 1.0f, 0.0f, result);
    return result;
  }
  static std::vector<double> normals() {
    Stream stream(7, "normals");
    std::vector<double> z(kRows * kWidth);
    for (double& x : z) x = stream.normal();
    return z;
  }
  static void expect_near(const std::vector<double>& found, const std::vector<double>& expected, double tolerance) {
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], tolerance) << i;
  }
};

TEST_P(SketchedFactors, PreconditionMultiplyAndMeasureAlike) {
  EXPECT_NEAR(damping_balance(sketched_), damping_balance(whole_), 1e-5);
  auto found = normals(), expected = normals();
  ASSERT_TRUE(precondition(sketched_, 0.01, std::vector<std::span<double>>{found}));
  ASSERT_TRUE(precondition(whole_, 0.01, std::vector<std::span<double>>{expected}));
  expect_near(found, expected, 1e-4);
  found = expected = normals();
  times_fisher(sketched_, 0.01, found);
  times_fisher(whole_, 0.01, expected);
  expect_near(found, expected, 1e-4);
  EXPECT_NEAR(fisher_norm(sketched_, normals()), fisher_norm(whole_, normals()), 1e-3);
}

TEST_P(SketchedFactors, HaveTheSameSpectrum) {
  auto found = fisher_spectrum(sketched_), expected = fisher_spectrum(whole_);
  std::ranges::sort(found);
  std::ranges::sort(expected);
  ASSERT_EQ(found.size(), kRows * kWidth);
  expect_near(found, expected, 1e-4);
}

// The draws differ, their covariance does not: each unit of noise gives a row of a root R, and RᵀR is the same.
TEST_P(SketchedFactors, DrawWithTheSameCovariance) {
  const auto covariance = [&](const FisherFactors& factors) {
    Matrix<double> all(kRows * kWidth, kRows * kWidth);
    for (std::size_t i = 0; i < kRows * kWidth; ++i) {
      std::vector<float> noise(kRows * kWidth, 0.0f);
      noise[i] = 1.0f;
      colour_by_fisher(factors, 100.0, 2.0, noise);
      for (std::size_t j = 0; j < noise.size(); ++j) all(index(i), index(j)) = double{noise[j]};
    }
    return Matrix<double>(all.transpose() * all);
  };
  const auto found = covariance(sketched_), expected = covariance(whole_);
  EXPECT_LT((found - expected).norm(), 1e-4 * expected.norm());
}

INSTANTIATE_TEST_SUITE_P(Ranks, SketchedFactors, testing::Values(3, 7, kWidth));

TEST(SketchedFactors, WithoutDampingAreNotInvertedWhereNothingIsKnown) {
  const std::vector<float> sketch = sketch_of(moments(2, 4), 6), b{1.0f};
  std::vector<float> without = sketch;
  without.back() = 0.0f;  // less than what is known: nothing is left for the rest
  std::vector<double> g(kWidth, 1.0);
  const FisherFactors factors{.rows = 1, .width = kWidth, .inputs = without, .outputs = b, .rank = 6};
  EXPECT_FALSE(precondition(factors, 0.0, std::vector<std::span<double>>{g}));
  EXPECT_EQ(g, std::vector<double>(kWidth, 1.0));
}

}  // namespace
}  // namespace parley
