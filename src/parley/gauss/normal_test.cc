#include "parley/gauss/normal.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <vector>

#include "parley/tensor/flat.h"

namespace parley::gauss {
namespace {

constexpr std::size_t kMany = 1 << 22;

const std::vector<float>& many() {
  static const std::vector<float> draws = [] {
    std::vector<float> out(kMany);
    Stream stream(2024, "normal_test");
    fill_normal(stream, out);
    return out;
  }();
  return draws;
}

// How many standard errors the mean of f over the draws is from its expectation.
template <class F>
double deviations(F f, double expected, double variance) {
  double total = 0.0;
  for (const float z : many()) total += f(static_cast<double>(z));
  return (total / kMany - expected) / std::sqrt(variance / kMany);
}

TEST(FillNormal, HasTheMomentsOfANormal) {
  EXPECT_LT(std::abs(deviations([](double z) { return z; }, 0.0, 1.0)), 4.0);
  EXPECT_LT(std::abs(deviations([](double z) { return z * z; }, 1.0, 2.0)), 4.0);
  EXPECT_LT(std::abs(deviations([](double z) { return z * z * z; }, 0.0, 15.0)), 4.0);
  EXPECT_LT(std::abs(deviations([](double z) { return z * z * z * z; }, 3.0, 96.0)), 4.0);
  EXPECT_LT(std::abs(deviations([](double z) { return std::pow(z, 6); }, 15.0, 10395.0 - 225.0)), 4.0);
}

TEST(FillNormal, HasTheTailsOfANormal) {
  for (const double at : {0.01, 0.5, 1.0, 2.0, 3.0, 4.0, 4.5}) {
    for (const double side : {1.0, -1.0}) {
      const double p = 0.5 * std::erfc(at / std::sqrt(2.0));
      EXPECT_LT(std::abs(deviations([&](double z) { return side * z > at ? 1.0 : 0.0; }, p, p * (1.0 - p))), 4.5)
          << "beyond " << side * at;
    }
  }
  EXPECT_GT(*std::max_element(many().begin(), many().end()), 4.7f);
  EXPECT_LT(*std::max_element(many().begin(), many().end()), 7.6f);
}

// Kolmogorov and Smirnov: the largest gap between the empirical and the true distribution.
TEST(FillNormal, FollowsTheDistributionEverywhere) {
  std::vector<float> sorted = many();
  std::sort(sorted.begin(), sorted.end());
  double gap = 0.0;
  for (std::size_t i = 0; i < kMany; ++i) {
    const double cdf = 0.5 * std::erfc(-static_cast<double>(sorted[i]) / std::sqrt(2.0));
    gap = std::max(
        {gap, std::abs(cdf - static_cast<double>(i) / kMany), std::abs(cdf - static_cast<double>(i + 1) / kMany)});
  }
  EXPECT_LT(gap * std::sqrt(static_cast<double>(kMany)), 1.95);  // p = 0.001
}

// Neighbours, lanes, pairs and blocks: z, z² and |z| of each must be unrelated.
TEST(FillNormal, HasNoCorrelationAtTheLagsOfItsMachinery) {
  const auto& z = many();
  for (const std::size_t lag : {1u, 2u, 8u, 15u, 16u, 17u, 32u, 255u, 256u, 257u, 511u, 512u, 1024u}) {
    double plain = 0.0, squares = 0.0;
    const std::size_t count = kMany - lag;
    for (std::size_t i = 0; i < count; ++i) {
      const double a = z[i], b = z[i + lag];
      plain += a * b;
      squares += (a * a - 1.0) * (b * b - 1.0);
    }
    const double error = std::sqrt(static_cast<double>(count));
    EXPECT_LT(std::abs(plain / error), 4.5) << "lag " << lag;
    EXPECT_LT(std::abs(squares / (2.0 * error)), 4.5) << "lag " << lag;
  }
}

TEST(FillNormal, IsNamedByItsStream) {
  std::vector<float> a(1000), b(1000);
  const auto fill = [](std::vector<float>& out, std::uint64_t seed, const char* purpose, std::uint64_t round) {
    Stream stream(seed, purpose, round);
    fill_normal(stream, out);
  };
  fill(a, 1, "noise", 3);
  fill(b, 1, "noise", 3);
  EXPECT_EQ(a, b);
  for (const auto& [seed, purpose, round] : {std::tuple{2, "noise", 3}, {1, "noisy", 3}, {1, "noise", 4}}) {
    fill(b, static_cast<std::uint64_t>(seed), purpose, static_cast<std::uint64_t>(round));
    double correlation = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) correlation += static_cast<double>(a[i]) * b[i];
    EXPECT_LT(std::abs(correlation), 4.5 * std::sqrt(1000.0));
  }
}

RC_GTEST_PROP(FillNormal, AShorterFillIsTheBeginningOfALonger, (std::uint64_t seed)) {
  Stream sizes(seed, "sizes"), a(seed, "noise"), b(seed, "noise");
  std::vector<float> brief(sizes.below(1500)), longer(brief.size() + sizes.below(1500));
  fill_normal(a, brief);
  fill_normal(b, longer);
  RC_ASSERT(std::equal(brief.begin(), brief.end(), longer.begin()));
  RC_ASSERT(a.bits() == b.bits());  // both took as much from their stream
}

TEST(FillNormal, SuccessiveFillsOfOneStreamDiffer) {
  Stream stream(1, "noise");
  std::vector<float> a(4096), b(4096);
  fill_normal(stream, a);
  fill_normal(stream, b);
  double correlation = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) correlation += static_cast<double>(a[i]) * b[i];
  EXPECT_LT(std::abs(correlation), 4.5 * 64.0);
}

// The first numbers of a stream, which no change may move without saying so; computed by an
// independent program in double, so they hold to rounding.
TEST(FillNormal, KeepsItsNumbers) {
  Stream stream(1, "golden");
  std::array<float, 4> z;
  fill_normal(stream, z);
  const std::array expected{0.4185473118f, -0.3290475279f, 1.2912154112f, -0.5048823586f};
  for (std::size_t i = 0; i < z.size(); ++i) EXPECT_NEAR(z[i], expected[i], 2e-6f) << "number " << i;
}

RC_GTEST_PROP(Sample, IsMeanPlusScaledNoise, (std::uint64_t seed)) {
  Stream stream(seed, "test"), same(seed, "noise"), noise(seed, "noise");
  // Sizes on both sides of the blocks and the lanes, precisions over eight orders of magnitude.
  const std::size_t size = stream.below(4) == 0 ? 500 + stream.below(600) : 1 + stream.below(70);
  Flat mean(size), precision(size), z(size), theta(size);
  for (auto& mu : mean) mu = static_cast<float>(3.0 * stream.normal());
  for (auto& xi : precision) xi = static_cast<float>(std::pow(10.0, stream.uniform(-4.0, 4.0)));
  fill_normal(same, z);
  sample({mean, precision}, 0.5f, noise, theta);
  for (std::size_t i = 0; i < size; ++i) {
    const double expected = mean[i] + 0.5 * z[i] / std::sqrt(static_cast<double>(precision[i]));
    const double step = std::abs(expected - mean[i]);
    RC_ASSERT(std::abs(theta[i] - expected) <= 4e-7 * (step + std::abs(mean[i])));
  }
  sample({mean, precision}, 0.0f, noise, theta);
  RC_ASSERT(theta == mean);
}

TEST(Sample, HasTheMeanAndVarianceOfItsGaussian) {
  constexpr std::size_t kDraws = 1 << 18;
  const Flat mean(kDraws, 2.0f), precision(kDraws, 16.0f);
  Flat theta(kDraws);
  Stream stream(5, "sample");
  sample({mean, precision}, 1.0f, stream, theta);
  double first = 0.0, second = 0.0;
  for (const float x : theta) first += x - 2.0, second += (x - 2.0) * (x - 2.0);
  EXPECT_NEAR(first / kDraws, 0.0, 4.0 * 0.25 / std::sqrt(kDraws));
  EXPECT_NEAR(second / kDraws, 1.0 / 16.0, 4.0 * std::sqrt(2.0 / kDraws) / 16.0);
}

}  // namespace
}  // namespace parley::gauss
