// Known answers of the Gaussian product (Liu & Zheng 2021); equations are the paper's.
#include <gtest/gtest.h>

#include <cmath>

#include "parley/base/errors.h"
#include "parley/base/random.h"
#include "parley/engine/test_bed.h"
#include "parley/methods/fola/compress.h"

namespace parley {
namespace {

using Settings = TestBed::Settings;

const TestBed::Quadratics kTwo{.h = {{2, .5f}, {.1f, 5}}, .m = {{1, 1}, {-1, 3}}, .copies = {2, 3}};

// Folds hand-made posteriors: precision and mean of each client, weights a.
void fold(TestBed& bed, const std::vector<Flat>& precision, const std::vector<Flat>& mean,
          const std::vector<double>& a) {
  Sum sum(bed.schema());
  for (std::size_t n = 0; n < a.size(); ++n) {
    Update update(bed.schema());
    update.weight = a[n];
    update.channels() = {precision[n], mean[n]};  // in the order of the schema, which is another for a mixture
    update.check(*bed.schema());
    sum.add(update);
  }
  bed.serve(1, sum);
}

TEST(Fola, TheProductOfTwoGaussians) {
  TestBed bed("fola", kTwo);
  fold(bed, {{1, 4}, {3, 1}}, {{1, 2}, {3, -1}}, {0.25, 0.75});
  EXPECT_NEAR(bed.state().at("precision")[0], 2.5, 1e-6);
  EXPECT_NEAR(bed.state().at("precision")[1], 1.75, 1e-6);
  EXPECT_NEAR(bed.theta()[0], 2.8, 1e-6);
  EXPECT_NEAR(bed.theta()[1], 0.7142857142857143, 1e-6);
}

TEST(Fola, ExactPrecisionsGiveTheExactOptimum) {
  TestBed bed("fola", kTwo);
  fold(bed, {{2, .5f}, {.1f, 5}}, {{1, 1}, {-1, 3}}, {0.4, 0.6});
  EXPECT_NEAR(bed.theta()[0], 0.8604651162790696, 1e-6);
  EXPECT_NEAR(bed.theta()[1], 2.875, 1e-6);
}

TEST(Fola, EqualPrecisionsAreFedAvgBitForBit) {
  const SharedSchema plain = share({.channels = {{.name = "theta", .count = 2}}});
  Stream stream(1, "equal");
  for (int trial = 0; trial < 50; ++trial) {
    TestBed bed("fola", kTwo);
    const float p = static_cast<float>(std::exp(stream.normal()));
    std::vector<Flat> mean(3, Flat(2));
    std::vector<double> a(3);
    Sum average(plain);
    for (std::size_t n = 0; n < 3; ++n) {
      for (auto& x : mean[n]) x = static_cast<float>(stream.normal());
      Update update(plain);
      update.weight = a[n] = static_cast<double>(1 + stream.below(1000));
      update.channels()[0] = mean[n];
      average.add(update);
    }
    fold(bed, {Flat(2, p), Flat(2, p), Flat(2, p)}, mean, a);
    const auto expected = average.take_mean("theta");
    for (int j = 0; j < 2; ++j) EXPECT_EQ(bed.theta()[j], static_cast<float>(expected[j]));
  }
}

TEST(Fola, OneClientKeepsItsOwnResultBitForBit) {
  const TestBed::Quadratics one{.h = {{2, 0}}, .m = {{1, -7}}, .copies = {3}};
  TestBed fola("fola", one, with(local(0.1, 4), "method.lambda", 0.0)), avg("fedavg", one, local(0.1, 4));
  fola.rounds(5);
  avg.rounds(5);
  EXPECT_EQ(fola.theta()[0], avg.theta()[0]);
  EXPECT_EQ(fola.theta()[1], avg.theta()[1]);  // no gradient at all: zero precision falls back to the average
}

TEST(Fola, UnitPrecisionAndLambdaIsFedProx) {
  const double lambda = 0.7;
  TestBed fola("fola", kTwo, with(local(0.1, 6), "method.lambda", lambda));
  TestBed prox("fedprox", kTwo, with(local(0.1, 6), "method.mu", lambda));
  std::ranges::fill(fola.state().at("precision"), 1.0f);
  for (std::size_t client = 0; client < 2; ++client) {
    const Update a = fola.train(1, client), b = prox.train(1, client);
    for (int j = 0; j < 2; ++j) EXPECT_FLOAT_EQ(a.channels()[1][j], b.channels()[0][j]);
  }
}

// Eq. 17 makes the precision of round R the mean of the rounds' Fishers (Eq. 18).
TEST(Fola, TheRecursionIsARunningMean) {
  const TestBed::Quadratics one{.h = {{2}}, .m = {{1}}};
  TestBed bed("fola", one, local(0.1, 1));
  double theta = 0.0, fisher_sum = 0.0;
  for (std::size_t r = 1; r <= 6; ++r) {
    const double gradient = 2.0 * (theta - 1.0);
    fisher_sum += gradient * gradient;
    theta -= 0.1 * gradient;
    bed.round(r);
    EXPECT_NEAR(bed.state().at("precision")[0], fisher_sum / static_cast<double>(r), 1e-5);
  }
}

// γ acts with the same strength in every round: in the prior's pull it stands beside the running mean of the Fishers.
TEST(Fola, GammaStaysConstantOverTheRounds) {
  constexpr double kGamma = 3.0, kRate = 0.1, kH = 2.0, kM = 1.0;
  const TestBed::Quadratics one{.h = {{kH}}, .m = {{kM}}};
  auto settings = with(local(kRate, 3), "method.gamma", kGamma);
  TestBed bed("fola", one, with(settings, "method.lambda", 1.0));
  double theta = 0.0, fisher_sum = 0.0;
  for (std::size_t r = 1; r <= 6; ++r) {
    const double centre = theta, prior = r == 1 ? 0.0 : fisher_sum / static_cast<double>(r - 1);
    double squares = 0.0;
    for (int step = 0; step < 3; ++step) {
      const double gradient = kH * (theta - kM);
      squares += gradient * gradient / 3;
      theta -= kRate * (gradient + (prior + kGamma) * (theta - centre));
    }
    fisher_sum += squares;
    bed.round(r);
    EXPECT_NEAR(bed.theta()[0], theta, 1e-5) << r;
    EXPECT_NEAR(bed.state().at("precision")[0], fisher_sum / static_cast<double>(r), 1e-5) << r;  // without γ
  }
}

TEST(Fola, GammaIsInThePosteriorThatNetworksAreDrawnFrom) {
  TestBed bed("fola", kTwo, {{"method.gamma", 0.25}});  // no round yet: γ is all there is
  constexpr std::size_t kDraws = 20000;
  double squares = 0.0;
  for (std::size_t s = 0; s < kDraws; ++s) {
    Stream stream(1, "posterior", 1, s);
    Flat theta(2);
    bed.method().posterior()->draw(bed.state(), {.examples = 50, .scale = 1.0, .prior_precision = 5.0}, stream, theta);
    squares += std::pow(double{theta[0]} - double{bed.theta()[0]}, 2);
  }
  EXPECT_NEAR(squares / kDraws * (50 * 0.25 + 5.0), 1.0, 4 * std::sqrt(2.0 / kDraws));
}

TEST(Fola, ShrinkPullsWhatNobodyKnowsToZero) {
  const TestBed::Quadratics one{.h = {{0}}, .m = {{1}}};
  TestBed bed("fola", one, with(local(0.1, 1), "method.zero_precision", std::string("shrink")));
  bed.theta()[0] = 3.0f;
  bed.rounds(1);
  EXPECT_EQ(bed.theta()[0], 0.0f);
}

TEST(Fola, MixtureMeanIsFedAvgAndVarianceIsEq6) {
  TestBed mixture("fola", kTwo, with(local(0.1, 3), "method.aggregation", std::string("mixture")));
  TestBed avg("fedavg", kTwo, local(0.1, 3));
  mixture.rounds(1);
  avg.rounds(1);
  for (int j = 0; j < 2; ++j) EXPECT_EQ(mixture.theta()[j], avg.theta()[j]);
  // Two Gaussians by hand: μ = {1, 3}, σ² = {.5, 2}, a = {¼, ¾}.
  TestBed bed("fola", kTwo, {{"method.aggregation", std::string("mixture")}});
  fold(bed, {{1, 1}, {3, 3}}, {{.5f + 1, .5f + 1}, {2 + 9, 2 + 9}}, {0.25, 0.75});
  EXPECT_NEAR(1.0 / bed.state().at("precision")[0], 0.25 * 1.5 + 0.75 * 11 - 2.5 * 2.5, 1e-5);
}

TEST(Fola, OfflineMeasuresAtTheFinalWeightsAlone) {
  const TestBed::Quadratics one{.h = {{2}}, .m = {{1}}};
  TestBed bed("fola", one, with(local(0.1, 3), "method.fisher", std::string("offline")));
  bed.round(1);
  const double gradient = 2.0 * (bed.theta()[0] - 1.0);
  EXPECT_NEAR(bed.state().at("precision")[0], gradient * gradient, 1e-6);
}

TEST(Fola, ImproperPrecisionsAreRefused) {
  TestBed bed("fola", kTwo);
  for (const float bad :
       {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    EXPECT_THROW(fold(bed, {{1, bad}}, {{1, 2}}, {1.0}), RefusedUpdate) << bad;
  }
}

// Laplace: N(μ, scale·(examples·P + prior)⁻¹).
TEST(Fola, DrawsFromItsPosterior) {
  TestBed bed("fola", kTwo);
  std::ranges::copy(std::vector<float>{1.0f, -2.0f}, bed.theta().begin());
  std::ranges::copy(std::vector<float>{0.3f, 0.0f}, bed.state().at("precision").begin());
  const Posterior::Draw how{.examples = 50, .scale = 2.0, .prior_precision = 5.0};
  const double variance[2] = {2.0 / (50 * 0.3 + 5.0), 2.0 / 5.0};
  constexpr std::size_t kDraws = 20000;
  double sum[2] = {}, squares[2] = {};
  for (std::size_t s = 0; s < kDraws; ++s) {
    Stream stream(1, "posterior", 1, s);
    Flat theta(2);
    bed.method().posterior()->draw(bed.state(), how, stream, theta);
    for (std::size_t j = 0; j < 2; ++j) {
      const double distance = static_cast<double>(theta[j]) - static_cast<double>(bed.theta()[j]);
      sum[j] += distance;
      squares[j] += distance * distance;
    }
  }
  for (std::size_t j = 0; j < 2; ++j) {
    EXPECT_NEAR(sum[j] / kDraws, 0.0, 4 * std::sqrt(variance[j] / kDraws));
    EXPECT_NEAR(squares[j] / kDraws / variance[j], 1.0, 4 * std::sqrt(2.0 / kDraws));
  }
}

TEST(Fola, DrawsWhatIsTrainedAndKeepsTheRest) {
  TestBed bed("fola", kTwo, with(local(0.1, 1), "model.norm", std::string("batch")));
  bed.round(1);
  Stream stream(1, "posterior");
  Flat drawn(bed.theta().size());
  bed.method().posterior()->draw(bed.state(), {.examples = 10, .scale = 1, .prior_precision = 1}, stream, drawn);
  const std::size_t trainable = bed.layout().trainable();
  ASSERT_LT(trainable, drawn.size());
  for (std::size_t i = 0; i < trainable; ++i) EXPECT_NE(drawn[i], bed.theta()[i]);
  for (std::size_t i = trainable; i < drawn.size(); ++i) EXPECT_EQ(drawn[i], bed.theta()[i]);
}

TEST(Fola, AMixtureHasNoPosteriorToDrawFrom) {
  EXPECT_NE(TestBed("fola", kTwo).method().posterior(), nullptr);
  EXPECT_EQ(TestBed("fola", kTwo, {{"method.aggregation", std::string("mixture")}}).method().posterior(), nullptr);
  EXPECT_EQ(TestBed("fedavg", kTwo).method().posterior(), nullptr);
}

// h/2(θ − m ± s)² in batches of two and one: mean gradients h(θ − m) and h(θ − m + s), which count as two and as one.
TEST(Fola, AShortBatchCountsByItsExamples) {
  const TestBed::Quadratics one{.h = {{2}}, .m = {{1}}, .copies = {3}, .spread = {{.5f}}};
  const double lr = 0.1;
  auto settings = with(local(lr, 1), "client.batch", std::int64_t{2});
  TestBed online("fola", one, settings);
  online.round(1);
  const double first = 2 * (0 - 1.0), between = -lr * first, second = 2 * (between - 1.0 + .5);
  EXPECT_NEAR(online.state().at("precision")[0], (2 * first * first + second * second) / 3, 1e-5);
  TestBed offline("fola", one, with(settings, "method.fisher", std::string("offline")));
  offline.round(1);
  const double end = between - lr * second, of_two = 2 * (end - 1.0), of_one = 2 * (end - 1.0 + .5);
  EXPECT_NEAR(offline.state().at("precision")[0], (2 * of_two * of_two + of_one * of_one) / 3, 1e-5);
}

// Least squares (wx + b − y)² with two examples whose gradients cancel: no mean gradient, but each example has its own.
TEST(Fola, PerSampleSquaresTheGradientOfEachExample) {
  const TestBed::Regression problem{.x = {{{1}, {2}}}, .y = {{{2}, {-1}}}};
  const auto settings = with(local(0.1, 1), "method.gradient", std::string("per_sample"));
  // At zero the errors are −2 and 1: by w −4 and 4, by b −4 and 2.
  TestBed online("fola", problem, settings);
  online.round(1);
  EXPECT_NEAR(online.state().at("precision")[0], (16 + 16) / 2.0, 1e-5);
  EXPECT_NEAR(online.state().at("precision")[1], (16 + 4) / 2.0, 1e-5);
  // One step along the mean gradient (0, −1) takes b to 0.1: errors −1.9 and 1.1.
  TestBed offline("fola", problem, with(settings, "method.fisher", std::string("offline")));
  offline.round(1);
  EXPECT_NEAR(offline.theta()[1], 0.1, 1e-6);
  EXPECT_NEAR(offline.state().at("precision")[0], (3.8 * 3.8 + 4.4 * 4.4) / 2, 1e-5);
  EXPECT_NEAR(offline.state().at("precision")[1], (3.8 * 3.8 + 2.2 * 2.2) / 2, 1e-5);
}

TEST(Compress, ShareOneIsTheIdentity) {
  const Layout layout({{"w", {2, 3}}});
  Flat precision{5, 1, 4, 2, 3, 0}, before = precision;
  EXPECT_TRUE(compress_precision(layout, 1.0, precision).empty());
  EXPECT_EQ(precision, before);
}

TEST(Compress, KeepsTheLargestOfEachLayerAndTheMeanOfTheRest) {
  const Layout layout({{"w", {2, 3}}, {"b", {2}, Role::bias}});
  Flat precision{5, 1, 4, 2, 3, 0, 7, 9};
  const auto segments = compress_precision(layout, 0.34, precision);
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].size, 6u);
  EXPECT_EQ(segments[0].rest, 1.0f);
  EXPECT_EQ(precision, (Flat{5, 1, 4, 1, 3, 1, 7, 9}));  // mean of 1, 2, 0 is 1
}

}  // namespace
}  // namespace parley
