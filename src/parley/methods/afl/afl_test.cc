#include "parley/methods/afl/afl.h"

#include <gtest/gtest.h>

#include "parley/base/errors.h"
#include "parley/engine/test_bed.h"

namespace parley {
namespace {

const TestBed::Quadratics kOneDimension{.h = {{1}, {4}}, .m = {{0}, {1}}};

// ½θ² = 2(θ − 1)² at θ = 2/3, where neither can gain without the other's loss; the mean's optimum is 0.8.
TEST(Afl, TwoQuadraticsMeetInTheMinimaxPoint) {
  TestBed bed("afl", kOneDimension, with(local(0.05, 1), "method.lambda_lr", 0.02));
  bed.rounds(4000);
  EXPECT_NEAR(bed.theta()[0], 2.0 / 3.0, 1e-3);
  // At the saddle point λ∇F cancels: λ·θ = 4(1 − λ)(1 − θ), so λ = 2/3.
  EXPECT_NEAR(bed.state().at("lambda")[0], 2.0 / 3.0, 1e-2);
}

// Where one client is worse off at the other's optimum whatever is done, it gets all of the weight.
TEST(Afl, AHopelessClientTakesAllOfTheWeight) {
  const TestBed::Quadratics noisy{.h = {{1}, {1}}, .m = {{0}, {1}}, .copies = {2, 2}, .spread = {{0}, {10}}};
  TestBed bed("afl", noisy, local(0.05, 1));
  bed.rounds(500);
  EXPECT_NEAR(bed.theta()[0], 1.0, 1e-3);
  EXPECT_EQ(bed.state().at("lambda")[0], 0.0f);
}

TEST(Afl, ProjectsOnTheSimplex) {
  const auto projected = [](std::vector<float> x) {
    project_on_simplex(x);
    return x;
  };
  EXPECT_EQ(projected({0.25f, 0.75f}), (std::vector<float>{0.25f, 0.75f}));
  EXPECT_EQ(projected({2.0f, 0.0f}), (std::vector<float>{1.0f, 0.0f}));
  EXPECT_EQ(projected({1.0f, 1.0f, -5.0f}), (std::vector<float>{0.5f, 0.5f, 0.0f}));
  EXPECT_EQ(projected({-3.0f}), (std::vector<float>{1.0f}));
}

// Over all cohorts of two out of four the mean step is that of all four, and the mean of λ before its projection too.
TEST(Afl, CohortsGiveTheFullStepOnTheAverage) {
  const TestBed::Quadratics four{.h = {{1}, {4}, {2}, {1}}, .m = {{0}, {1}, {5}, {5}}};
  const std::vector<float> lambda{.1f, .3f, .4f, .2f};
  const auto settings = with(local(0.1, 1), "method.lambda_lr", 0.001);
  const auto start = [&](TestBed& bed) {
    bed.theta()[0] = 2.0f;
    std::ranges::copy(lambda, bed.state().at("lambda").begin());
  };
  TestBed all("afl", four, settings);
  start(all);
  all.round(1);
  double theta = 0.0, of_client[4] = {};
  for (const auto& cohort : std::vector<std::vector<std::size_t>>{{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}}) {
    TestBed some("afl", four, settings);
    start(some);
    some.round(1, cohort);
    theta += double{some.theta()[0]} / 6;
    for (std::size_t k = 0; k < 4; ++k) of_client[k] += double{some.state().at("lambda")[k]} / 6;
  }
  EXPECT_NEAR(theta, all.theta()[0], 1e-6);
  // Nobody falls to 0, so that the projection only takes the same surplus from everyone and is linear.
  for (std::size_t k = 0; k < 4; ++k) EXPECT_NEAR(of_client[k], all.state().at("lambda")[k], 1e-6);
}

// What λ has dropped moves nothing, even when nobody else is there.
TEST(Afl, ACohortWithoutWeightMovesNothing) {
  TestBed bed("afl", kOneDimension, local(0.1, 1));
  std::ranges::copy(std::vector<float>{1.0f, 0.0f}, bed.state().at("lambda").begin());
  bed.theta()[0] = 0.25f;
  bed.round(1, {1});
  EXPECT_EQ(bed.theta()[0], 0.25f);
}

TEST(Afl, ReachesTheMinimaxPointOneClientAtATime) {
  TestBed bed("afl", kOneDimension, with(local(0.01, 1), "method.lambda_lr", 0.004));
  double mean = 0.0;
  constexpr std::size_t kRounds = 20000;
  for (std::size_t r = 1; r <= kRounds; ++r) {
    bed.round(r, {r % 2});
    if (r > kRounds / 2) mean += double{bed.theta()[0]} / (kRounds / 2);
  }
  EXPECT_NEAR(mean, 2.0 / 3.0, 5e-3);
}

TEST(Afl, EmptyClientsHaveNoWeight) {
  const TestBed::Quadratics three{.h = {{1}, {7}, {4}}, .m = {{0}, {9}, {1}}, .copies = {1, 0, 1}};
  TestBed bed("afl", three, with(local(0.05, 1), "method.lambda_lr", 0.02));
  EXPECT_EQ(bed.state().at("lambda")[1], 0.0f);
  bed.rounds(4000);
  EXPECT_NEAR(bed.theta()[0], 2.0 / 3.0, 1e-3);
  EXPECT_EQ(bed.state().at("lambda")[1], 0.0f);
}

}  // namespace
}  // namespace parley
