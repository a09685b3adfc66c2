#include "parley/methods/qfed/qfed.h"

#include <gtest/gtest.h>

#include <cmath>

#include "parley/base/errors.h"
#include "parley/engine/test_bed.h"

namespace parley {
namespace {

const TestBed::Quadratics kOneDimension{.h = {{1}, {4}}, .m = {{0}, {1}}};
const TestBed::Quadratics kUnequal{.h = {{2, .5f}, {.1f, 5}}, .m = {{1, 1}, {-1, 3}}, .copies = {2, 3}};

TEST(QFed, ZeroIsTheUniformMeanWhateverTheSizes) {
  for (const auto& [fair, plain] : {std::pair{"qfedavg", "fedavg"}, {"qfedsgd", "fedsgd"}}) {
    TestBed bed(fair, kUnequal, with(local(0.1, 3), "method.q", 0.0)), mean(plain, kUnequal, local(0.1, 3), true);
    bed.rounds(5);
    mean.rounds(5);
    for (int j = 0; j < 2; ++j) EXPECT_NEAR(bed.theta()[j], mean.theta()[j], 1e-5) << fair;
  }
}

TEST(QFed, OneStepOfTrainingIsTheGradientForm) {
  TestBed avg("qfedavg", kUnequal, local(0.1, 1)), sgd("qfedsgd", kUnequal, local(0.1, 1));
  avg.rounds(10);
  sgd.rounds(10);
  for (int j = 0; j < 2; ++j) EXPECT_NEAR(avg.theta()[j], sgd.theta()[j], 1e-4);
}

// The fixed point has Σ Fᵠ∇F = 0: for q = 1, on ½θ² and 2(θ − 1)², ½θ³ + 8(θ − 1)³ = 0, so θ = 2.5198 (1 − θ).
TEST(QFed, FindsTheOptimumOfTheReweightedLoss) {
  TestBed bed("qfedsgd", kOneDimension, local(0.05, 1));
  bed.rounds(2000);
  const double ratio = std::cbrt(16.0);
  EXPECT_NEAR(bed.theta()[0], ratio / (1 + ratio), 1e-4);
}

TEST(QFed, ALargeQTendsToTheMinimax) {
  TestBed bed("qfedsgd", kOneDimension, with(local(0.05, 1), "method.q", 20.0));
  bed.rounds(3000);
  EXPECT_NEAR(bed.theta()[0], 2.0 / 3.0, 0.02);
}

TEST(QFed, TheGradientFormRefusesWhatNeedsSteps) {
  EXPECT_THROW(TestBed("qfedsgd", kOneDimension, {{"client.optimizer", std::string("adam")}}), InputError);
  EXPECT_NO_THROW(TestBed("qfedavg", kOneDimension, {{"client.optimizer", std::string("adam")}}));
}

// One round from θ = 2 by hand: w ← w − ΣΔ/Σh with Δ = Fᵠ·L(w − w_k) and h = q·Fᵠ⁻¹‖L(w − w_k)‖² + L·Fᵠ, L = 1/η.
TEST(QFed, OneRoundOfTrainingByHand) {
  constexpr double kQ = 2.0, kRate = 0.05;
  TestBed bed("qfedavg", kOneDimension, with(local(kRate, 3), "method.q", kQ));
  bed.theta()[0] = 2.0f;
  bed.round(1);
  const double h[] = {1, 4}, m[] = {0, 1};
  double delta = 0.0, bound = 0.0;
  for (int k = 0; k < 2; ++k) {
    double w = 2.0;
    const double loss = 0.5 * h[k] * (w - m[k]) * (w - m[k]);
    for (int step = 0; step < 3; ++step) w -= kRate * h[k] * (w - m[k]);
    const double gradient = (2.0 - w) / kRate;
    delta += std::pow(loss, kQ) * gradient;
    bound += kQ * std::pow(loss, kQ - 1) * gradient * gradient + std::pow(loss, kQ) / kRate;
  }
  EXPECT_NEAR(bed.theta()[0], 2.0 - delta / bound, 1e-5);
}

}  // namespace
}  // namespace parley
