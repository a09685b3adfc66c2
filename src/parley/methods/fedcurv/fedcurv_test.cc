#include "parley/methods/fedcurv/fedcurv.h"

#include <gtest/gtest.h>

#include <cmath>

#include "parley/base/errors.h"
#include "parley/engine/test_bed.h"

namespace parley {
namespace {

const TestBed::Quadratics kTwo{.h = {{2, .5f}, {.1f, 5}}, .m = {{1, 1}, {-1, 3}}, .copies = {2, 3}};

TEST(FedCurv, MuZeroIsFedAvgBitForBit) {
  TestBed curv("fedcurv", kTwo, with(local(0.1, 4), "method.mu", 0.0)), avg("fedavg", kTwo, local(0.1, 4));
  curv.rounds(5);
  avg.rounds(5);
  for (int j = 0; j < 2; ++j) EXPECT_EQ(curv.theta()[j], avg.theta()[j]);
}

// Round 2 of two clients: each one's penalty is the other's Fisher around the other's weights.
TEST(FedCurv, PullsTowardsTheOtherClientsOptimum) {
  const TestBed::Quadratics two{.h = {{1}, {2}}, .m = {{0}, {3}}};
  const double mu = 0.4, lr = 0.01;
  TestBed bed("fedcurv", two, with(local(lr, 1), "method.mu", mu));
  bed.theta()[0] = 1.0f;
  const double start = 1.0, h[2] = {1, 2}, m[2] = {0, 3};
  double end[2], fisher[2];
  for (int n = 0; n < 2; ++n) {
    end[n] = start - lr * h[n] * (start - m[n]);
    fisher[n] = std::pow(h[n] * (end[n] - m[n]), 2);
  }
  bed.round(1);
  const double mean = (end[0] + end[1]) / 2;
  EXPECT_NEAR(bed.theta()[0], mean, 1e-6);
  for (int n = 0; n < 2; ++n) {
    const double stepped = mean - lr * h[n] * (mean - m[n]), pull = 2 * mu * lr * fisher[1 - n];
    const double expected = (stepped + pull * end[1 - n]) / (1 + pull);
    EXPECT_NEAR(bed.train(2, n).channels()[0][0], expected, 1e-5);
  }
}

// The server's sums are those of the last round alone. A client that was not in it has nothing of its own to take off,
// whatever it remembers from earlier.
TEST(FedCurv, WhoMissedARoundIsPulledByAllOfTheSums) {
  const TestBed::Quadratics two{.h = {{1}, {2}}, .m = {{0}, {3}}};
  const double mu = 0.4, lr = 0.01;
  TestBed bed("fedcurv", two, with(local(lr, 1), "method.mu", mu));
  bed.theta()[0] = 1.0f;
  bed.round(1, {0});
  bed.round(2, {1});
  const double after_first = 1.0 - lr * 1.0;
  // Client 1 in round 2: pulled by client 0's Fisher information of round 1.
  const double first_fisher = after_first * after_first;
  const double first_pull = 2 * mu * lr * first_fisher;
  const double after_second =
      (after_first - lr * 2.0 * (after_first - 3.0) + first_pull * after_first) / (1 + first_pull);
  EXPECT_NEAR(bed.theta()[0], after_second, 1e-6);
  const double second_fisher = std::pow(2.0 * (after_second - 3.0), 2);
  bed.theta()[0] = 5.0f;  // away from where the sums pull to
  bed.round(3, {0});
  const double second_pull = 2 * mu * lr * second_fisher;
  EXPECT_NEAR(bed.theta()[0], (5.0 - lr * 5.0 + second_pull * after_second) / (1 + second_pull), 1e-5);
}

// At the strengths that the papers search, an explicit step of the penalty would be multiplied by −79,999 each time.
TEST(FedCurv, StaysBetweenTheOptimaHoweverStiffThePullIs) {
  const TestBed::Quadratics two{.h = {{1}, {2}}, .m = {{0}, {3}}};
  TestBed bed("fedcurv", two, with(local(0.1, 10), "method.mu", 1e5));
  for (std::size_t r = 1; r <= 20; ++r) {
    bed.round(r);
    EXPECT_GE(bed.theta()[0], 0.0f) << r;
    EXPECT_LE(bed.theta()[0], 3.0f) << r;
  }
}

}  // namespace
}  // namespace parley
