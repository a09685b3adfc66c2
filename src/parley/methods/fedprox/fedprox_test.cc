#include "parley/methods/fedprox/fedprox.h"

#include <gtest/gtest.h>

#include "parley/base/errors.h"
#include "parley/engine/test_bed.h"

namespace parley {
namespace {

const TestBed::Quadratics kOneDimension{.h = {{1}, {10}}, .m = {{0}, {1}}};
const TestBed::Quadratics kTwoDimensions{.h = {{2, .5f}, {.1f, 5}}, .m = {{1, 1}, {-1, 3}}, .copies = {2, 3}};

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

// Three steps from θ_s = 1 by hand: y ← y − η(h(y − m) + μ(y − θ_s)).
TEST(FedProx, PullsTowardsTheBroadcastInEveryStep) {
  TestBed bed("fedprox", kOneDimension, with(local(0.05, 3), "method.mu", 2.0));
  bed.theta()[0] = 1.0f;
  bed.round(1);
  const double h[] = {1, 10}, m[] = {0, 1};
  double mean = 0.0;
  for (int n = 0; n < 2; ++n) {
    double y = 1.0;
    for (int step = 0; step < 3; ++step) y -= 0.05 * (h[n] * (y - m[n]) + 2.0 * (y - 1.0));
    mean += 0.5 * y;
  }
  EXPECT_NEAR(bed.theta()[0], mean, 1e-6);
}

}  // namespace
}  // namespace parley
