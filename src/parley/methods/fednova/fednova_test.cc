#include "parley/methods/fednova/fednova.h"

#include <gtest/gtest.h>

#include <cmath>

#include "parley/base/errors.h"
#include "parley/engine/test_bed.h"

namespace parley {
namespace {

using Settings = TestBed::Settings;
const TestBed::Quadratics kOneDimension{.h = {{1}, {10}}, .m = {{0}, {1}}};
const TestBed::Quadratics kTwoDimensions{.h = {{2, .5f}, {.1f, 5}}, .m = {{1, 1}, {-1, 3}}, .copies = {2, 3}};

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

// Clients of 1 and 3 steps. What the gradients of the path add up to is counted term by term: a gradient of momentum ρ
// acts in every later step, ρ weaker each time; one under a proximal term fades by 1 − ημ with each.
struct Path {
  double end, weight;  // θ after the steps, ‖a‖₁
};

Path by_momentum(int steps, double lr, double rho, double h, double m) {
  double theta = 0.0, velocity = 0.0, weight = 0.0;
  for (int k = 0; k < steps; ++k) {
    velocity = rho * velocity + h * (theta - m);
    theta -= lr * velocity;
    for (int later = 0; later < steps - k; ++later) weight += std::pow(rho, later);
  }
  return {theta, weight};
}

Path by_proximal_steps(int steps, double lr, double mu, double h, double m) {
  double theta = 0.0, weight = 0.0;
  for (int k = 0; k < steps; ++k) {
    theta -= lr * (h * (theta - m) + mu * theta);  // the round begins at 0
    weight += std::pow(1.0 - lr * mu, steps - 1 - k);
  }
  return {theta, weight};
}

// θ + τ_eff·Σ p_i (θ_i − θ)/‖a_i‖₁ with τ_eff = Σ p_i‖a_i‖₁, for θ = 0.
double normalised(const Path& a, const Path& b, double share) {
  const double effective = share * a.weight + (1.0 - share) * b.weight;
  return effective * (share * a.end / a.weight + (1.0 - share) * b.end / b.weight);
}

const TestBed::Quadratics kUneven{.h = {{1}, {2}}, .m = {{4}, {-1}}, .copies = {1, 3}};
Settings one_example_a_step(double lr) {
  return with(local(lr, 1), "client.batch", std::int64_t{1});
}

TEST(FedNova, WeighsTheStepsOfMomentum) {
  Settings settings = with(one_example_a_step(0.1), "client.optimizer", std::string("momentum"));
  settings["client.momentum"] = 0.9;
  TestBed bed("fednova", kUneven, settings);
  bed.round(1);
  const Path one = by_momentum(1, 0.1, 0.9, 1, 4), three = by_momentum(3, 0.1, 0.9, 2, -1);
  EXPECT_NEAR(three.weight, 5.61, 1e-12);
  EXPECT_NEAR(bed.theta()[0], normalised(one, three, 0.25), 1e-6);
}

TEST(FedNova, WeighsTheStepsOfAProximalTerm) {
  TestBed bed("fednova", kUneven, with(one_example_a_step(0.1), "method.mu", 2.0));
  bed.round(1);
  const Path one = by_proximal_steps(1, 0.1, 2.0, 1, 4), three = by_proximal_steps(3, 0.1, 2.0, 2, -1);
  EXPECT_NEAR(three.weight, 2.44, 1e-12);
  EXPECT_NEAR(bed.theta()[0], normalised(one, three, 0.25), 1e-6);
}

}  // namespace
}  // namespace parley
