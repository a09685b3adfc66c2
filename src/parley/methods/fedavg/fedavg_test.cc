#include "parley/methods/fedavg/fedavg.h"

#include <gtest/gtest.h>

#include "parley/base/errors.h"
#include "parley/engine/test_bed.h"

namespace parley {
namespace {

const TestBed::Quadratics kOneDimension{.h = {{1}, {10}}, .m = {{0}, {1}}};
const TestBed::Quadratics kTwoDimensions{.h = {{2, .5f}, {.1f, 5}}, .m = {{1, 1}, {-1, 3}}, .copies = {2, 3}};

// The fixed point moves away from the optimum as the local steps grow.
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

// Long local training ends in the weighted mean of the clients' optima.
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

}  // namespace
}  // namespace parley
