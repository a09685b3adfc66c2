#include "parley/gauss/diagonal.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "parley/base/errors.h"
#include "parley/gauss/elementary.h"
#include "parley/gauss/loops.h"
#include "parley/gauss/test_gaussians.h"

namespace parley::gauss {
namespace {

using testing::Moments, testing::Natural, testing::natural, testing::random_moments, testing::random_natural,
    testing::random_size;

// |a − b| within `ulps` roundings of a float of the size of `scale`.
void assert_near(float a, float b, float scale, float ulps) {
  RC_ASSERT(std::abs(a - b) <= ulps * 0x1p-24f * std::abs(scale) + std::numeric_limits<float>::min());
}

Natural product_of(const Natural& a, const Natural& b) {
  Natural out(a.precision.size());
  product(a.view(), b.view(), out.view());
  return out;
}

RC_GTEST_PROP(Natural, ProductThenRatioIsTheIdentity, (std::uint64_t seed)) {
  Stream stream(seed, "test");
  const std::size_t size = random_size(stream);
  const Natural a = random_natural(stream, size), b = random_natural(stream, size), both = product_of(a, b);
  Natural back(size);
  ratio(both.view(), b.view(), back.view());
  for (std::size_t i = 0; i < size; ++i) {
    assert_near(back.precision[i], a.precision[i], both.precision[i], 2);
    assert_near(back.shift[i], a.shift[i], std::abs(a.shift[i]) + std::abs(b.shift[i]), 2);
  }
}

RC_GTEST_PROP(Natural, ProductCommutesAndAssociates, (std::uint64_t seed)) {
  Stream stream(seed, "test");
  const std::size_t size = random_size(stream);
  const Natural a = random_natural(stream, size), b = random_natural(stream, size), c = random_natural(stream, size);
  RC_ASSERT(product_of(a, b) == product_of(b, a));
  const Natural left = product_of(product_of(a, b), c), right = product_of(a, product_of(b, c));
  for (std::size_t i = 0; i < size; ++i) {
    assert_near(left.precision[i], right.precision[i], left.precision[i], 4);
    const float scale = std::abs(a.shift[i]) + std::abs(b.shift[i]) + std::abs(c.shift[i]);
    assert_near(left.shift[i], right.shift[i], scale, 4);
  }
}

RC_GTEST_PROP(Natural, PowersAddUp, (std::uint64_t seed)) {
  Stream stream(seed, "test");
  const std::size_t size = random_size(stream);
  const Natural a = random_natural(stream, size);
  Natural once(size), twice(size), none(size);
  power(a.view(), 1.0f, once.view());
  power(a.view(), 2.0f, twice.view());
  power(a.view(), 0.0f, none.view());
  RC_ASSERT(once == a);
  RC_ASSERT(twice == product_of(a, a));
  RC_ASSERT(product_of(a, none) == a);
}

RC_GTEST_PROP(Natural, WeightedProductIsTheProductOfPowers, (std::uint64_t seed)) {
  Stream stream(seed, "test");
  const std::size_t size = random_size(stream);
  const Natural a = random_natural(stream, size), b = random_natural(stream, size);
  const std::array<ConstNaturalView, 2> factors{a.view(), b.view()};
  Natural plain(size), weighted(size), left(size), right(size);
  product(factors, std::array{1.0, 1.0}, plain.view());
  RC_ASSERT(plain == product_of(a, b));
  product(factors, std::array{0.25, -3.0}, weighted.view());
  power(a.view(), 0.25f, left.view());
  power(b.view(), -3.0f, right.view());
  const Natural expected = product_of(left, right);
  for (std::size_t i = 0; i < size; ++i) {
    assert_near(weighted.precision[i], expected.precision[i], 3 * (a.precision[i] + b.precision[i]), 2);
    assert_near(weighted.shift[i], expected.shift[i], 3 * (std::abs(a.shift[i]) + std::abs(b.shift[i])), 2);
  }
}

RC_GTEST_PROP(Natural, OutputMayBeAnInput, (std::uint64_t seed)) {
  Stream stream(seed, "test");
  const std::size_t size = random_size(stream);
  const Natural a = random_natural(stream, size), b = random_natural(stream, size);
  Natural expected(size), in_place = a;
  product(in_place.view(), b.view(), in_place.view());
  RC_ASSERT(in_place == product_of(a, b));
  ratio(a.view(), b.view(), expected.view());
  in_place = b;
  ratio(a.view(), in_place.view(), in_place.view());
  RC_ASSERT(in_place == expected);
  const std::array powers{0.5, 2.0};
  product(std::array<ConstNaturalView, 2>{a.view(), b.view()}, powers, expected.view());
  in_place = b;
  product(std::array<ConstNaturalView, 2>{a.view(), in_place.view()}, powers, in_place.view());
  RC_ASSERT(in_place == expected);
  // The forms share memory: shift and mean in the same array.
  Moments moments = random_moments(stream, size);
  const Natural away = natural(moments);
  to_natural(moments.view(), {.precision = moments.precision, .shift = moments.mean});
  RC_ASSERT(moments.mean == away.shift && moments.precision == away.precision);
}

RC_GTEST_PROP(Natural, ToMeanUndoesToNatural, (std::uint64_t seed)) {
  Stream stream(seed, "test");
  const Moments a = random_moments(stream, random_size(stream));
  const Natural there = natural(a);
  Moments back(a.mean.size());
  to_mean(there.view(), back.view());
  RC_ASSERT(back.precision == a.precision);
  for (std::size_t i = 0; i < a.mean.size(); ++i) assert_near(back.mean[i], a.mean[i], a.mean[i], 3);
}

TEST(Natural, RatioMayBeImproper) {
  const Natural a({1.0f}, {2.0f}), b({3.0f}, {1.0f});
  Natural cavity(1);
  ratio(a.view(), b.view(), cavity.view());
  EXPECT_EQ(cavity, Natural({-2.0f}, {1.0f}));
  EXPECT_FALSE(is_proper(cavity.precision));
}

RC_GTEST_PROP(Kl, IsPositiveAndZeroForEqualsOnly, (std::uint64_t seed)) {
  Stream stream(seed, "test");
  const std::size_t size = random_size(stream);
  const Moments a = random_moments(stream, size), b = random_moments(stream, size);
  RC_ASSERT(kl(a.view(), a.view()) == 0.0);
  RC_ASSERT(kl(natural(a).view(), natural(a).view()) == 0.0);
  RC_ASSERT(kl(a.view(), b.view()) > 0.0);
  // The least change a float can express, in one place, is seen.
  Moments near = a;
  const std::size_t i = stream.below(size);
  auto& changed = stream.below(2) == 0 ? near.precision[i] : near.mean[i];
  changed = std::nextafter(changed, 1e9f);
  RC_ASSERT(kl(a.view(), near.view()) > 0.0);
  RC_ASSERT(kl(near.view(), a.view()) > 0.0);
}

RC_GTEST_PROP(Kl, AgreesBetweenTheFormsAndWithTheFormula, (std::uint64_t seed)) {
  Stream stream(seed, "test");
  const std::size_t size = random_size(stream);
  const Moments a = random_moments(stream, size), b = random_moments(stream, size);
  double expected = 0.0;
  for (std::size_t i = 0; i < size; ++i) {
    const double va = 1.0 / a.precision[i], vb = 1.0 / b.precision[i];
    const double d = static_cast<double>(a.mean[i]) - static_cast<double>(b.mean[i]);
    expected += std::log(std::sqrt(vb / va)) + (va + d * d) / (2.0 * vb) - 0.5;
  }
  RC_ASSERT(std::abs(kl(a.view(), b.view()) - expected) <= 1e-12 * expected);
  RC_ASSERT(std::abs(kl(natural(a).view(), natural(b).view()) - expected) <= 1e-4 * expected);
}

// ∫ f over the real line where it matters, by the midpoint rule: exponentially accurate for smooth bells.
template <class F>
double integral(F f, double centre, double sigma) {
  constexpr int kSteps = 4000;
  const double low = centre - 12.0 * sigma, step = 24.0 * sigma / kSteps;
  double total = 0.0;
  for (int i = 0; i < kSteps; ++i) total += f(low + (i + 0.5) * step) * step;
  return total;
}

// log_density takes floats, so the integrands are written in t = (θ − μ)/σ on a grid that floats hold exactly.
TEST(Kl, AndDensityAgreeWithIntegrals) {
  const Moments a({0.5f}, {4.0f}), b({-1.0f}, {0.25f});
  const auto at = [](const Moments& g, double theta) {
    return log_density(g.view(), std::array{static_cast<float>(theta)});
  };
  const double sigma = 0.5, centre = 0.5;
  EXPECT_NEAR(integral([&](double t) { return std::exp(at(a, t)); }, centre, sigma), 1.0, 1e-7);
  const double numeric = integral([&](double t) { return std::exp(at(a, t)) * (at(a, t) - at(b, t)); }, centre, sigma);
  EXPECT_NEAR(numeric, kl(a.view(), b.view()), 1e-6);
  const double negative = integral([&](double t) { return -std::exp(at(a, t)) * at(a, t); }, centre, sigma);
  EXPECT_NEAR(negative, entropy(a.precision), 1e-6);
}

TEST(Kl, HasItsClosedFormValues) {
  const Moments standard({0.0f}, {1.0f}), shifted({1.0f}, {1.0f}), wide({0.0f}, {0.25f});
  EXPECT_DOUBLE_EQ(kl(standard.view(), shifted.view()), 0.5);
  EXPECT_DOUBLE_EQ(kl(standard.view(), wide.view()), 0.5 * (0.25 - 1.0 + std::log(4.0)));
  EXPECT_DOUBLE_EQ(kl(wide.view(), standard.view()), 0.5 * (4.0 - 1.0 - std::log(4.0)));
}

TEST(Kl, NormalisedExtremesStayFinite) {
  const float least = std::numeric_limits<float>::denorm_min(), most = std::numeric_limits<float>::max();
  const Moments a({0.0f}, {least}), b({0.0f}, {most});
  EXPECT_NEAR(kl(b.view(), a.view()),
              0.5 * (std::log(static_cast<double>(most)) - std::log(1.4012984643248171e-45) - 1.0), 1e-10);
  EXPECT_TRUE(std::isfinite(kl(a.view(), b.view())));
  EXPECT_TRUE(std::isfinite(entropy(a.precision)));
}

// By central differences of kl(), in ln σ for the second.
RC_GTEST_PROP(Kl, GradientAgreesWithDifferences, (std::uint64_t seed)) {
  Stream stream(seed, "test");
  const auto kl_at = [](double mean, double rho, const Moments& b) {
    return kl(Moments({static_cast<float>(mean)}, {static_cast<float>(std::exp(-2.0 * rho))}).view(), b.view());
  };
  const double mean = stream.normal(), rho = stream.uniform(-1.0, 1.0), step = 1e-2, t = 0.7;
  const Moments b({static_cast<float>(stream.normal())}, {static_cast<float>(stream.uniform(0.5, 2.0))});
  const Flat means{static_cast<float>(mean)}, variances{static_cast<float>(std::exp(2.0 * rho))};
  Flat by_mean{1.0f}, by_rho{2.0f};
  add_kl_gradient(natural(b).view(), static_cast<float>(t), 0.0f, means, variances, by_mean, by_rho);
  const double expected_mean = 1.0 + t * (kl_at(mean + step, rho, b) - kl_at(mean - step, rho, b)) / (2 * step);
  const double expected_rho = 2.0 + t * (kl_at(mean, rho + step, b) - kl_at(mean, rho - step, b)) / (2 * step);
  RC_ASSERT(std::abs(by_mean[0] - expected_mean) < 1e-3 * (1.0 + std::abs(expected_mean)));
  RC_ASSERT(std::abs(by_rho[0] - expected_rho) < 1e-2 * (1.0 + std::abs(expected_rho)));
}

// However stiff: a step lands where μ' = μ − step·(g + t(ξμ' − χ)).
TEST(Kl, ItsGradientTakesAnImplicitStep) {
  const Natural b({1000.0f}, {3000.0f});
  const Flat mean{1.0f}, variance{0.25f};
  Flat by_mean{2.0f}, by_rho{0.0f};
  add_kl_gradient(b.view(), 0.5f, 0.1f, mean, variance, by_mean, by_rho);
  const float after = mean[0] - 0.1f * by_mean[0];
  EXPECT_NEAR(after, mean[0] - 0.1f * (2.0f + 0.5f * (1000.0f * after - 3000.0f)), 1e-4);
  EXPECT_NEAR(by_rho[0], 0.5f * (250.0f - 1.0f) / (1.0f + 2 * 0.1f * 0.5f * 250.0f), 1e-4);
}

TEST(Entropy, HasItsClosedFormValueAndAddsOverElements) {
  const double unit = 0.5 * std::log(2.0 * std::numbers::pi * std::numbers::e);
  EXPECT_DOUBLE_EQ(entropy(Flat{1.0f}), unit);
  EXPECT_NEAR(entropy(Flat(1000, 1.0f)), 1000.0 * unit, 1e-10);
  EXPECT_NEAR(entropy(Flat{4.0f, 0.25f}), 2.0 * unit, 1e-15);
}

// KL(a‖b) = −H(a) − E_a[ln b], and E_a[ln b] = ln b(μ_a) − ½ Σ ξ_b/ξ_a.
RC_GTEST_PROP(Entropy, AndCrossEntropyMakeTheKl, (std::uint64_t seed)) {
  Stream stream(seed, "test");
  const std::size_t size = random_size(stream);
  const Moments a = random_moments(stream, size), b = random_moments(stream, size);
  double spread = 0.0;
  for (std::size_t i = 0; i < size; ++i) spread += static_cast<double>(b.precision[i]) / a.precision[i];
  const double cross = log_density(b.view(), a.mean) - 0.5 * spread;
  const double expected = -entropy(a.precision) - cross, got = kl(a.view(), b.view());
  RC_ASSERT(std::abs(got - expected) <= 1e-11 * (got + static_cast<double>(size)));
}

// ln N(θ|a·b) differs from ln N(θ|a) + ln N(θ|b) by the same constant at every θ.
RC_GTEST_PROP(LogDensity, OfAProductIsTheSumUpToAConstant, (std::uint64_t seed)) {
  Stream stream(seed, "test");
  // Small whole numbers, whose sums and products floats hold exactly.
  const auto whole = [&](std::uint64_t n) { return static_cast<float>(stream.below(n)); };
  const Natural a({1.0f + whole(9)}, {whole(9) - 4.0f}), b({1.0f + whole(9)}, {whole(9) - 4.0f});
  const Natural both = product_of(a, b);
  const auto gap = [&](float theta) {
    const std::array at{theta};
    return log_density(both.view(), at) - log_density(a.view(), at) - log_density(b.view(), at);
  };
  RC_ASSERT(std::abs(gap(0.0f) - gap(2.0f)) < 1e-11);
  RC_ASSERT(std::abs(gap(0.0f) - gap(-5.0f)) < 1e-11);
}

RC_GTEST_PROP(LogDensity, AgreesBetweenTheForms, (std::uint64_t seed)) {
  Stream stream(seed, "test");
  const std::size_t size = random_size(stream);
  const Moments a = random_moments(stream, size);
  const Flat theta = random_moments(stream, size).mean;
  const double by_mean = log_density(a.view(), theta), by_natural = log_density(natural(a).view(), theta);
  RC_ASSERT(std::abs(by_mean - by_natural) <= 1e-4 * (std::abs(by_mean) + 1.0));
}

RC_GTEST_PROP(Collapse, OfOneOrOfIdenticalComponentsIsThatComponent, (std::uint64_t seed)) {
  Stream stream(seed, "test");
  const std::size_t size = random_size(stream);
  const Moments a = random_moments(stream, size);
  Moments out(size);
  collapse(std::array<ConstMeanView, 1>{a.view()}, std::array{1.0 + stream.uniform()}, out.view());
  RC_ASSERT(out == a);
  collapse(std::array<ConstMeanView, 3>{a.view(), a.view(), a.view()}, std::array{1.0, stream.uniform(), 600.0},
           out.view());
  RC_ASSERT(out == a);
}

TEST(Collapse, HasTheMomentsOfTheMixture) {
  // By hand: ¼N(1, 1) + ¾N(3, 4): mean 2.5, variance ¼·(1+1) + ¾·(4+9) − 6.25 = 4.
  const Moments a({1.0f}, {1.0f}), b({3.0f}, {0.25f});
  Moments out(1);
  collapse(std::array<ConstMeanView, 2>{a.view(), b.view()}, std::array{1.0, 3.0}, out.view());
  EXPECT_EQ(out, Moments({2.5f}, {0.25f}));
}

TEST(Collapse, AgreesWithMonteCarlo) {
  Stream stream(11, "mixture");
  const std::array parts{Moments({-1.0f}, {4.0f}), Moments({2.0f}, {0.5f}), Moments({0.3f}, {1.0f})};
  const std::array weights{0.2, 0.5, 0.3};
  constexpr int kDraws = 400000;
  double first = 0.0, second = 0.0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = stream.uniform();
    const auto& part = parts[u < 0.2 ? 0 : u < 0.7 ? 1 : 2];
    const double x = part.mean[0] + stream.normal() / std::sqrt(part.precision[0]);
    first += x;
    second += x * x;
  }
  const double mean = first / kDraws, variance = second / kDraws - mean * mean;
  Moments out(1);
  collapse(std::array<ConstMeanView, 3>{parts[0].view(), parts[1].view(), parts[2].view()}, weights, out.view());
  EXPECT_NEAR(out.mean[0], mean, 5.0 * std::sqrt(variance / kDraws));
  EXPECT_NEAR(1.0 / out.precision[0], variance, 5.0 * variance * std::sqrt(4.0 / kDraws));
}

TEST(Collapse, DoesNotCancelWhenTheMeansAreLarge) {
  const Moments a({1000.0f}, {1e6f}), b({1000.0f}, {1e6f});
  Moments out(1);
  collapse(std::array<ConstMeanView, 2>{a.view(), b.view()}, std::array{1.0, 2.0}, out.view());
  EXPECT_EQ(out, a);
}

TEST(Proper, NamesTheFirstOffender) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinite = std::numeric_limits<float>::infinity();
  for (const float bad : {-1.0f, nan, infinite, -infinite, -1e-45f}) {
    for (const std::size_t at : {0u, 17u, 99u}) {
      Flat precision(100, 1.0f);
      precision[at] = bad;
      if (at < 99) precision[99] = bad;
      for (const Zero zero : {Zero::refused, Zero::allowed}) {
        EXPECT_EQ(first_improper(precision, zero), at);
        EXPECT_FALSE(is_proper(precision, zero));
        EXPECT_THROW(refuse_improper("precision", precision, zero), RefusedUpdate);
      }
    }
  }
}

TEST(Proper, LetsTheProperPass) {
  const Flat precision{std::numeric_limits<float>::denorm_min(), 1.0f, std::numeric_limits<float>::max()};
  EXPECT_EQ(first_improper(precision), precision.size());
  EXPECT_TRUE(is_proper(precision));
  EXPECT_NO_THROW(refuse_improper("precision", precision));
  EXPECT_TRUE(is_proper({}));
}

TEST(Proper, ZeroIsTheCallersChoice) {
  const Flat precision{1.0f, 0.0f};
  EXPECT_EQ(first_improper(precision), 1u);
  EXPECT_TRUE(is_proper(precision, Zero::allowed));
  try {
    refuse_improper("lambda", precision);
    FAIL() << "not refused";
  } catch (const RefusedUpdate& refused) {
    EXPECT_STREQ(refused.what(), "channel 'lambda' is no precision: number 1 is 0; expected a finite number above 0");
  }
}

RC_GTEST_PROP(Logarithm, IsTheLibrarysToTheLastPlace, (std::uint64_t seed)) {
  Stream stream(seed, "test");
  for (int i = 0; i < 200; ++i) {
    const double x = i % 2 == 0 ? std::exp2(stream.uniform(-1000.0, 1000.0)) : 1.0 + 1e-3 * stream.normal();
    const double expected = std::log(x);
    RC_ASSERT(std::abs(log_normal_number(x) - expected) <= 0x1p-51 * std::abs(expected));
  }
  RC_ASSERT(log_normal_number(1.0) == 0.0);
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
