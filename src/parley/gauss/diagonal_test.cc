#include "parley/gauss/diagonal.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

#include "parley/base/random.h"
#include "parley/gauss/elementary.h"
#include "parley/tensor/flat.h"

namespace parley::gauss {
namespace {

TEST(Power, ScalesBothNaturalParametersAlsoInPlace) {
  // Longer than a vector register, so that the remainder is reached too.
  Flat precision(67, 4.0f), shift(67, -2.0f), damped(67), damped_shift(67);
  power({precision, shift}, 0.25f, {damped, damped_shift});
  EXPECT_EQ(damped, Flat(67, 1.0f));
  EXPECT_EQ(damped_shift, Flat(67, -0.5f));
  power({precision, shift}, 0.25f, {precision, shift});
  EXPECT_EQ(precision, damped);
  EXPECT_EQ(shift, damped_shift);
}

// KL(N(μ, σ²)‖b) = ½[ξ_bσ² − 1 − ln(ξ_bσ²) + ξ_b(μ − μ_b)²] with ρ = ln σ, in double.
double kl(double mean, double rho, double b_mean, double b_precision) {
  const double ratio = b_precision * std::exp(2.0 * rho), d = mean - b_mean;
  return 0.5 * (ratio - 1.0 - std::log(ratio) + b_precision * d * d);
}

RC_GTEST_PROP(KlGradient, AgreesWithDifferencesOfTheKl, (std::uint64_t seed)) {
  Stream stream(seed, "test");
  const double mean = stream.normal(), rho = stream.uniform(-1.0, 1.0), t = 0.7, step = 1e-4;
  const double b_mean = stream.normal(), b_precision = stream.uniform(0.5, 2.0);
  const Flat precision{static_cast<float>(b_precision)}, shift{static_cast<float>(b_precision * b_mean)};
  const Flat means{static_cast<float>(mean)}, variances{static_cast<float>(std::exp(2.0 * rho))};
  Flat by_mean{1.0f}, by_rho{2.0f};
  add_kl_gradient({precision, shift}, static_cast<float>(t), 0.0f, means, variances, by_mean, by_rho);
  const auto slope = [&](double over_mean, double over_rho) {
    return (kl(mean + over_mean, rho + over_rho, b_mean, b_precision) -
            kl(mean - over_mean, rho - over_rho, b_mean, b_precision)) /
           (2.0 * step);
  };
  // A dozen float roundings of terms of at most ξ(|μ| + |μ_b|) and ξσ² ≤ 2e², and step² times the third derivative.
  const double size = 3.0 + b_precision * (std::abs(mean) + std::abs(b_mean)) + b_precision * std::exp(2.0 * rho);
  RC_ASSERT(std::abs(by_mean[0] - (1.0 + t * slope(step, 0.0))) < 12 * 0x1p-24 * size + 1e-7);
  RC_ASSERT(std::abs(by_rho[0] - (2.0 + t * slope(0.0, step))) < 12 * 0x1p-24 * size + 2e-7);
}

// However stiff: a step lands where μ' = μ − step·(g + t(ξμ' − χ)).
TEST(KlGradient, TakesAnImplicitStep) {
  const Flat precision{1000.0f}, shift{3000.0f}, mean{1.0f}, variance{0.25f};
  Flat by_mean{2.0f}, by_rho{0.0f};
  add_kl_gradient({precision, shift}, 0.5f, 0.1f, mean, variance, by_mean, by_rho);
  const float after = mean[0] - 0.1f * by_mean[0];
  EXPECT_NEAR(after, mean[0] - 0.1f * (2.0f + 0.5f * (1000.0f * after - 3000.0f)), 1e-4);
  EXPECT_NEAR(by_rho[0], 0.5f * (250.0f - 1.0f) / (1.0f + 2 * 0.1f * 0.5f * 250.0f), 1e-4);
}

// A cavity may have a precision below 0; nothing is stiff there, and the plain gradient is added.
TEST(KlGradient, TakesAnImproperFactorAsItIs) {
  const Flat precision{-2.0f}, shift{1.0f}, mean{3.0f}, variance{0.5f};
  Flat by_mean{0.0f}, by_rho{0.0f};
  add_kl_gradient({precision, shift}, 0.5f, 0.1f, mean, variance, by_mean, by_rho);
  EXPECT_EQ(by_mean[0], 0.5f * (-2.0f * 3.0f - 1.0f));
  EXPECT_EQ(by_rho[0], 0.5f * (-2.0f * 0.5f - 1.0f));
}

RC_GTEST_PROP(Elementary, ExpAndLogAreTheLibrarysInAFewPlaces, (std::uint64_t seed)) {
  Stream stream(seed, "test");
  const auto x = static_cast<float>(stream.uniform(-86.0, 86.0));
  RC_ASSERT(std::abs(exp_float(x) / std::exp(static_cast<double>(x)) - 1.0) < 3e-7);
  const float y = exp_float(x);
  RC_ASSERT(std::abs(log_float(y) - std::log(static_cast<double>(y))) < 1e-5);
}

TEST(Elementary, ExpStaysWithinTheNormalNumbers) {
  EXPECT_EQ(exp_float(0.0f), 1.0f);
  EXPECT_GT(exp_float(-1e30f), 0.0f);
  EXPECT_TRUE(std::isfinite(exp_float(1e30f)));
  EXPECT_TRUE(std::isnan(exp_float(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace parley::gauss
