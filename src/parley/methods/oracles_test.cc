// Known answers of METHODS.md for the FedAvg family, on quadratics.
#include <gtest/gtest.h>

#include "parley/base/errors.h"
#include "parley/methods/test_bed.h"

namespace parley {
namespace {

using Settings = TestBed::Settings;
const TestBed::Quadratics kOneDimension{.h = {{1}, {10}}, .m = {{0}, {1}}};
const TestBed::Quadratics kTwoDimensions{.h = {{2, .5f}, {.1f, 5}}, .m = {{1, 1}, {-1, 3}}, .copies = {2, 3}};

// METHODS.md §4: the fixed point moves away from the optimum as the local steps grow.
TEST(FedAvg, FixedPointsOnQuadratics) {
  TestBed one("fedavg", kOneDimension, local(0.05, 1));
  one.rounds(400);
  EXPECT_NEAR(one.theta()[0], 0.909091, 1e-6);
  TestBed ten("fedavg", kOneDimension, local(0.05, 10));
  ten.rounds(400);
  EXPECT_NEAR(ten.theta()[0], 0.713442, 1e-6);
}

TEST(FedAvg, OneFullBatchStepIsGradientDescent) {
  TestBed bed("fedavg", kTwoDimensions, local(0.1, 1));
  double x[2] = {0, 0};
  const double h[2][2] = {{2, .5}, {.1, 5}}, m[2][2] = {{1, 1}, {-1, 3}}, a[2] = {.4, .6};
  for (std::size_t r = 1; r <= 5; ++r) {
    bed.round(r);
    for (int j = 0; j < 2; ++j) {
      double g = 0;
      for (int n = 0; n < 2; ++n) g += a[n] * h[n][j] * (x[j] - m[n][j]);
      x[j] -= 0.1 * g;
      EXPECT_NEAR(bed.theta()[j], x[j], 1e-6);
    }
  }
}

// METHODS.md §1, oracle 2: long local training ends in the weighted mean of the clients' optima.
TEST(FedAvg, OneShotAveragesTheOptima) {
  TestBed bed("fedavg", kTwoDimensions, local(0.1, 5000));
  bed.round(1);
  EXPECT_NEAR(bed.theta()[0], -0.2, 1e-5);
  EXPECT_NEAR(bed.theta()[1], 2.2, 1e-5);
}

TEST(FedAvg, UniformWeightsIgnoreSizes) {
  TestBed bed("fedavg", kTwoDimensions, local(0.1, 5000), true);
  bed.round(1);
  EXPECT_NEAR(bed.theta()[0], 0.0, 1e-5);
  EXPECT_NEAR(bed.theta()[1], 2.0, 1e-5);
}

TEST(FedAvg, OneClientIsPlainSgdBitForBit) {
  const TestBed::Quadratics one{.h = {{2, .3f}}, .m = {{1, -7}}, .copies = {3}};
  TestBed rounds("fedavg", one, local(0.1, 1)), steps("fedavg", one, local(0.1, 6));
  rounds.rounds(6);
  steps.rounds(1);
  EXPECT_EQ(rounds.theta()[0], steps.theta()[0]);
  EXPECT_EQ(rounds.theta()[1], steps.theta()[1]);
}

TEST(FedSgd, EqualsFedAvgWithOneFullBatchStep) {
  TestBed sgd("fedsgd", kTwoDimensions, local(0.1, 7)), avg("fedavg", kTwoDimensions, local(0.1, 1));
  sgd.rounds(10);
  avg.rounds(10);
  for (int j = 0; j < 2; ++j) EXPECT_NEAR(sgd.theta()[j], avg.theta()[j], 1e-6);
}

TEST(FedSgd, RefusesWhatOnlyLocalStepsCanHonour) {
  EXPECT_THROW(TestBed("fedsgd", kOneDimension, {{"client.optimizer", std::string("adam")}}), InputError);
  EXPECT_THROW(TestBed("fedsgd", kOneDimension, {{"client.clip_norm", 1.0}}), InputError);
}

TEST(FedProx, MuZeroIsFedAvgBitForBit) {
  TestBed prox("fedprox", kTwoDimensions, with(local(0.1, 5), "method.mu", 0.0)),
      avg("fedavg", kTwoDimensions, local(0.1, 5));
  prox.rounds(7);
  avg.rounds(7);
  for (int j = 0; j < 2; ++j) EXPECT_EQ(prox.theta()[j], avg.theta()[j]);
}

// argmin h/2(θ−m)² + μ/2(θ−θ_s)² = (h·m + μ·θ_s)/(h + μ), averaged.
TEST(FedProx, LongTrainingReachesTheProximalPoint) {
  TestBed bed("fedprox", kOneDimension, with(local(0.05, 4000), "method.mu", 2.0));
  bed.round(1);
  EXPECT_NEAR(bed.theta()[0], 0.5 * (0.0 / 3.0 + 10.0 / 12.0), 1e-5);
}

TEST(Scaffold, ReachesTheUniformOptimumDespiteManyLocalSteps) {
  TestBed bed("scaffold", kOneDimension, local(0.05, 10));
  bed.rounds(500);
  EXPECT_NEAR(bed.theta()[0], 10.0 / 11.0, 1e-5);
  // Unequal sizes change nothing: SCAFFOLD averages clients.
  TestBed::Quadratics sized = kOneDimension;
  sized.copies = {5, 1};
  TestBed other("scaffold", sized, local(0.05, 10));
  other.rounds(500);
  EXPECT_NEAR(other.theta()[0], 10.0 / 11.0, 1e-5);
}

TEST(Scaffold, FirstRoundIsFedAvgWithUniformWeights) {
  TestBed scaffold("scaffold", kTwoDimensions, local(0.1, 5)), avg("fedavg", kTwoDimensions, local(0.1, 5), true);
  scaffold.round(1);
  avg.round(1);
  for (int j = 0; j < 2; ++j) EXPECT_NEAR(scaffold.theta()[j], avg.theta()[j], 1e-6);
}

TEST(Scaffold, RefusesOtherOptimisers) {
  EXPECT_THROW(TestBed("scaffold", kOneDimension, {{"client.optimizer", std::string("adam")}}), InputError);
}

TEST(FedNova, EqualStepsAreFedAvg) {
  TestBed nova("fednova", kTwoDimensions, local(0.1, 5)), avg("fedavg", kTwoDimensions, local(0.1, 5));
  nova.rounds(7);
  avg.rounds(7);
  for (int j = 0; j < 2; ++j) EXPECT_NEAR(nova.theta()[j], avg.theta()[j], 1e-6);
}

// Clients that take 1 and 8 steps: FedAvg is drawn towards the busy one; FedNova's fixed point tends to the optimum of
// the weighted objective as the learning rate goes to 0.
TEST(FedNova, UnequalStepsTendToTheRightOptimum) {
  TestBed::Quadratics uneven = kOneDimension;
  uneven.h = {{1}, {2}};
  uneven.copies = {1, 8};
  Settings settings = local(0.001, 1);
  settings["client.batch"] = std::int64_t{1};
  TestBed nova("fednova", uneven, settings), avg("fedavg", uneven, settings);
  nova.rounds(9000);
  avg.rounds(9000);
  const double optimum = 16.0 / 17.0;
  EXPECT_NEAR(nova.theta()[0], optimum, 2e-3);
  EXPECT_GT(std::abs(avg.theta()[0] - optimum), 0.04);
}

TEST(FedNova, RefusesWhatItCannotNormalise) {
  EXPECT_THROW(TestBed("fednova", kOneDimension, {{"client.optimizer", std::string("adam")}}), InputError);
  EXPECT_THROW(TestBed("fednova", kOneDimension, {{"client.optimizer", std::string("momentum")}, {"method.mu", 0.1}}),
               InputError);
}

// One client: FedNova's normalisation must cancel exactly, whatever the local solver.
TEST(FedNova, OneClientKeepsItsOwnResult) {
  const TestBed::Quadratics one{.h = {{2}}, .m = {{1}}};
  for (const auto& settings : {local(0.1, 5), with(local(0.1, 5), "client.optimizer", std::string("momentum")),
                               with(local(0.1, 5), "method.mu", 0.5)}) {
    TestBed nova("fednova", one, settings);
    Settings same = settings;
    same.erase("method.mu");
    TestBed prox("fedprox", one, with(same, "method.mu", settings.contains("method.mu") ? 0.5 : 0.0));
    nova.rounds(3);
    prox.rounds(3);
    EXPECT_NEAR(nova.theta()[0], prox.theta()[0], 1e-6);
  }
}

TEST(ServerSteps, ComposeWithEveryMethod) {
  for (const auto& method : methods().names()) {
    for (const auto& step : server_steps().names()) {
      if (method == "virtual" && step != "replace") continue;  // refused
      TestBed bed(method, {.h = {{2, .5f}, {.1f, 5}}, .m = {{.1f, .1f}, {-.1f, .3f}}},
                  with(with(local(0.05, 2), "server.step", step), "model.norm", std::string("batch")));
      bed.rounds(20);
      for (const float x : bed.theta()) EXPECT_TRUE(std::isfinite(x)) << method << " + " << step;
      EXPECT_NE(bed.theta()[1], 0.0f) << method << " + " << step;
    }
  }
}

}  // namespace
}  // namespace parley
