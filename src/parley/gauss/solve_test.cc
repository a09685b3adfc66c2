#include "parley/gauss/solve.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cmath>

#include "parley/gauss/test_gaussians.h"

namespace parley::gauss {
namespace {

using testing::Moments, testing::Natural, testing::random_moments, testing::random_size;

// How the product Pμ reaches the sum: rounded to a float on the wire, or not.
enum class Wire { exact, rounded };

// The sums of a round as update.cc forms them.
class Folded {
 public:
  explicit Folded(std::size_t size) : precision_(size), precision_mean_(size), mean_(size), square_(size) {}
  void add(const Moments& client, double weight, Wire wire = Wire::rounded) {
    for (std::size_t i = 0; i < mean_.size(); ++i) {
      const double xi = client.precision[i], mu = client.mean[i];
      const double both = wire == Wire::exact ? xi * mu : static_cast<double>(client.precision[i] * client.mean[i]);
      precision_[i] += weight * xi;
      precision_mean_[i] += weight * both;
      mean_[i] += weight * mu;
      square_[i] += weight * (1.0 / xi + mu * mu);
    }
    weight_ += weight;
  }
  Moments product(double epsilon = 1e-8, ZeroPrecision rule = ZeroPrecision::average) const {
    Moments out(mean_.size());
    solve_product({precision_, precision_mean_, mean_, weight_}, epsilon, rule, out.view());
    return out;
  }
  Moments mixture() const {
    Moments out(mean_.size());
    solve_mixture({.mean = mean_, .square = square_, .centre = {}, .weight = weight_}, 1e-12, out.view());
    return out;
  }
  Flat average() const {  // as Sum::take_mean and FedAvg
    Flat out;
    for (const double sum : mean_) out.push_back(static_cast<float>(sum / weight_));
    return out;
  }
  double exact_mean(std::size_t i, double epsilon) const {
    return (precision_mean_[i] + epsilon * mean_[i]) / (precision_[i] + epsilon * weight_);
  }

 private:
  FlatDouble precision_, precision_mean_, mean_, square_;
  double weight_ = 0.0;
};

// METHODS.md §1, oracle (1).
TEST(SolveProduct, FirstOracle) {
  Folded sums(2);
  sums.add(Moments({1, 2}, {1, 4}), 0.25);
  sums.add(Moments({3, -1}, {3, 1}), 0.75);
  const Moments out = sums.product(0.0);
  EXPECT_EQ(out.precision, (Flat{2.5f, 1.75f}));
  EXPECT_EQ(out.mean, (Flat{2.8f, 0.7142857142857143f}));
}

// METHODS.md §1, oracle (2): the product's mean is the exact optimum of Σ a ½h(θ−m)²; the average is not.
TEST(SolveProduct, SecondOracle) {
  const Moments a({1, 1}, {2, 0.5f}), b({-1, 3}, {0.1f, 5});
  Folded sums(2);
  sums.add(a, 0.4);
  sums.add(b, 0.6);
  const Moments out = sums.product(0.0);
  EXPECT_FLOAT_EQ(out.mean[0], 0.8604651162790696f);
  EXPECT_FLOAT_EQ(out.mean[1], 2.875f);
  EXPECT_FLOAT_EQ(sums.average()[0], -0.2f);
  EXPECT_FLOAT_EQ(sums.average()[1], 2.2f);
}

RC_GTEST_PROP(SolveProduct, OneClientInIsThatClientOutBitForBit, (std::uint64_t seed)) {
  Stream stream(seed, "test");
  const Moments client = random_moments(stream, random_size(stream));
  const double weight = static_cast<double>(1 + stream.below(100000));
  for (const double epsilon : {0.0, 1e-8, 1.0}) {
    for (const Wire wire : {Wire::exact, Wire::rounded}) {
      Folded sums(client.mean.size());
      sums.add(client, weight, wire);
      RC_ASSERT(sums.product(epsilon) == client);
    }
  }
}

RC_GTEST_PROP(SolveProduct, OneClientSurvivesUnderflowOfTheProduct, (std::uint64_t seed)) {
  Stream stream(seed, "test");
  Moments client = random_moments(stream, random_size(stream));
  for (auto& xi : client.precision) xi = static_cast<float>(std::pow(10.0, stream.uniform(-44.0, -30.0)));
  Folded sums(client.mean.size());
  sums.add(client, 7.0);
  RC_ASSERT(sums.product(0.0).mean == client.mean);
  RC_ASSERT(sums.product(1e-8).mean == client.mean);
}

RC_GTEST_PROP(SolveProduct, EquallySureClientsGiveTheAverageBitForBit, (std::uint64_t seed)) {
  Stream stream(seed, "test");
  const std::size_t size = random_size(stream), cohort = 1 + stream.below(10);
  // P = 1, where the products are exact floats, and any P, kept exact in the double sums; means that do not cancel.
  const Flat unit(size, 1.0f), precision = random_moments(stream, size).precision;
  Folded ones(size), same(size);
  for (std::size_t c = 0; c < cohort; ++c) {
    Moments client = random_moments(stream, size);
    for (auto& mean : client.mean) mean = 10.0f + mean / 8.0f;
    const double weight = static_cast<double>(1 + stream.below(1000));
    ones.add(Moments(client.mean, unit), weight);
    same.add(Moments(client.mean, precision), weight, Wire::exact);
  }
  RC_ASSERT(ones.product().mean == ones.average());
  RC_ASSERT(same.product().mean == same.average());
  RC_ASSERT(same.product().precision == precision);
}

RC_GTEST_PROP(SolveProduct, EqualUnitPrecisionIsTheAverageEvenWhereMeansCancel, (std::uint64_t seed)) {
  Stream stream(seed, "test");
  const std::size_t size = random_size(stream), cohort = 2 + stream.below(10);
  Folded sums(size);
  for (std::size_t c = 0; c < cohort; ++c) {
    sums.add(Moments(random_moments(stream, size).mean, Flat(size, 1.0f)), static_cast<double>(1 + stream.below(1000)));
  }
  RC_ASSERT(sums.product().mean == sums.average());
}

RC_GTEST_PROP(SolveProduct, IsTheFormulaToHalfAUnitMore, (std::uint64_t seed)) {
  Stream stream(seed, "test");
  const std::size_t size = random_size(stream), cohort = 2 + stream.below(10);
  Folded sums(size);
  for (std::size_t c = 0; c < cohort; ++c) {
    sums.add(random_moments(stream, size), static_cast<double>(1 + stream.below(1000)));
  }
  for (const double epsilon : {1e-8, 1e-2, 10.0}) {
    const Moments out = sums.product(epsilon);
    for (std::size_t i = 0; i < size; ++i) {
      const double exact = sums.exact_mean(i, epsilon);
      RC_ASSERT(std::abs(out.mean[i] - exact) <= 0x1p-22 * std::abs(exact) + 1e-13);
    }
  }
}

TEST(SolveProduct, ZeroPrecisionFallsBackToTheAverage) {
  for (const double epsilon : {0.0, 1e-8}) {
    Folded sums(2);
    sums.add(Moments({1, 2}, {0, 0}), 1.0);
    sums.add(Moments({4, -1}, {0, 3}), 2.0);
    const Moments out = sums.product(epsilon);
    EXPECT_EQ(out.mean[0], 3.0f);
    EXPECT_NEAR(out.mean[1], -1.0f, 1e-7);
    EXPECT_EQ(out.precision, (Flat{0.0f, 2.0f}));
  }
}

TEST(SolveProduct, ShrinkFallsBackToZeroAndNeedsNoAverage) {
  const FlatDouble precision{0.0, 6.0}, precision_mean{0.0, -6.0};
  Moments out(2);
  for (const double epsilon : {0.0, 1.0}) {
    solve_product({precision, precision_mean, {}, 3.0}, epsilon, ZeroPrecision::shrink, out.view());
    EXPECT_EQ(out.mean[0], 0.0f);
    EXPECT_FLOAT_EQ(out.mean[1], epsilon == 0.0 ? -1.0f : -6.0f / 9.0f);
    EXPECT_EQ(out.precision, (Flat{0.0f, 2.0f}));
  }
}

RC_GTEST_PROP(SolveProduct, AgreesWithTheNaturalProduct, (std::uint64_t seed)) {
  Stream stream(seed, "test");
  const std::size_t size = random_size(stream);
  const Moments a = random_moments(stream, size), b = random_moments(stream, size);
  const Natural na = testing::natural(a), nb = testing::natural(b);
  Natural both(size);
  product(std::array<ConstNaturalView, 2>{na.view(), nb.view()}, std::array{0.25, 0.75}, both.view());
  Moments expected(size);
  to_mean(both.view(), expected.view());
  Folded sums(size);
  sums.add(a, 1.0);
  sums.add(b, 3.0);
  const Moments out = sums.product(0.0);
  for (std::size_t i = 0; i < size; ++i) {
    RC_ASSERT(out.precision[i] == expected.precision[i]);
    RC_ASSERT(std::abs(out.mean[i] - expected.mean[i]) <= 1e-6f * (std::abs(a.mean[i]) + std::abs(b.mean[i])));
  }
}

RC_GTEST_PROP(SolveMixture, AgreesWithCollapse, (std::uint64_t seed)) {
  Stream stream(seed, "test");
  const std::size_t size = random_size(stream);
  const Moments a = random_moments(stream, size), b = random_moments(stream, size);
  Moments expected(size);
  collapse(std::array<ConstMeanView, 2>{a.view(), b.view()}, std::array{2.0, 5.0}, expected.view());
  Folded sums(size);
  sums.add(a, 2.0);
  sums.add(b, 5.0);
  const Moments out = sums.mixture();
  RC_ASSERT(out.mean == sums.average());
  for (std::size_t i = 0; i < size; ++i) {
    RC_ASSERT(std::abs(out.precision[i] - expected.precision[i]) <= 1e-6f * expected.precision[i]);
  }
}

TEST(SolveMixture, IsAccurateAboutACentreAndFlooredWithoutOne) {
  // σ = 10⁻⁴ about a mean of 3: σ² is lost in the float σ² + μ², but not in σ² + (μ − c)².
  const float mu = 3.0f, variance = 1e-8f, centre = 2.999f, d = mu - centre;
  const FlatDouble mean{3.0};
  const Flat about{centre};
  Moments out(1);
  const FlatDouble raw{static_cast<double>(variance + mu * mu)};
  solve_mixture({.mean = mean, .square = raw, .centre = {}, .weight = 1.0}, 1e-10, out.view());
  EXPECT_FLOAT_EQ(out.precision[0], 1e10f);
  const FlatDouble centred{static_cast<double>(variance + d * d)};
  solve_mixture({.mean = mean, .square = centred, .centre = about, .weight = 1.0}, 1e-10, out.view());
  EXPECT_NEAR(out.precision[0], 1e8, 1e4 * 100);
  EXPECT_EQ(out.mean[0], mu);
}

}  // namespace
}  // namespace parley::gauss
