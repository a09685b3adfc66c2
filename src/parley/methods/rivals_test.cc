// Known answers of METHODS.md §7 for fairness and for models of the clients' own, on quadratics.
#include <gtest/gtest.h>

#include <cmath>

#include "parley/base/errors.h"
#include "parley/methods/afl/afl.h"
#include "parley/methods/test_bed.h"

namespace parley {
namespace {

const TestBed::Quadratics kOneDimension{.h = {{1}, {4}}, .m = {{0}, {1}}};
const TestBed::Quadratics kUnequal{.h = {{2, .5f}, {.1f, 5}}, .m = {{1, 1}, {-1, 3}}, .copies = {2, 3}};

float own(TestBed& bed, std::size_t client, std::size_t i = 0) {
  return bed.store().load(client)->at("own_theta")[i];
}

// ── qfedavg, qfedsgd ──

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

// ── afl ──

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

// ── local, ditto, pfedme ──

TEST(Local, EverybodyEndsAtHisOwnOptimum) {
  TestBed bed("local", kUnequal, local(0.1, 5));
  bed.rounds(200);
  EXPECT_NEAR(own(bed, 0, 0), 1.0f, 1e-4);
  EXPECT_NEAR(own(bed, 1, 1), 3.0f, 1e-4);
  EXPECT_NEAR(bed.theta()[1], 0.4 * 1 + 0.6 * 3, 1e-3);  // the average that is evaluated
}

TEST(Local, AClientThatComesLateStartsWhereTheOthersDid) {
  TestBed late("local", kUnequal, local(0.1, 1)), early("local", kUnequal, local(0.1, 1));
  for (std::size_t round = 1; round <= 5; ++round) {
    Sum sum(late.method().schema());
    sum.add(late.train(round, 0));
    late.serve(round, sum);
  }
  EXPECT_EQ(late.train(6, 1).channels[0], early.train(1, 1).channels[0]);
}

TEST(Ditto, WithoutPullIsLocalBesideFedAvg) {
  TestBed ditto("ditto", kUnequal, with(local(0.1, 3), "method.lambda", 0.0)), avg("fedavg", kUnequal, local(0.1, 3)),
      alone("local", kUnequal, local(0.1, 3));
  ditto.rounds(7);
  avg.rounds(7);
  alone.rounds(7);
  EXPECT_TRUE(std::ranges::equal(ditto.theta(), avg.theta()));
  for (std::size_t client = 0; client < 2; ++client) EXPECT_EQ(own(ditto, client, 1), own(alone, client, 1));
}

// argmin h/2(v − m)² + λ/2(v − θ)² = (h·m + λ·θ)/(h + λ) at the shared model's fixed point.
TEST(Ditto, TheOwnModelLiesBetweenTheClientsOptimumAndTheSharedModel) {
  TestBed bed("ditto", kOneDimension, with(local(0.05, 1), "method.lambda", 2.0));
  bed.rounds(600);
  EXPECT_NEAR(bed.theta()[0], 0.8, 1e-4);
  EXPECT_NEAR(own(bed, 0), (1 * 0 + 2 * 0.8) / 3, 1e-4);
  EXPECT_NEAR(own(bed, 1), (4 * 1 + 2 * 0.8) / 6, 1e-4);
}

// What training leaves in the model is what is measured as the client's own.
TEST(Ditto, CountsBothTrainings) {
  TestBed bed("ditto", kOneDimension, local(0.05, 3));
  EXPECT_EQ(bed.train(1, 0).training.steps, 6u);
}

TEST(PFedMe, FollowingAllTheWayAfterEachStepIsFedAvg) {
  TestBed tied("pfedme", kUnequal,
               {{"client.lr", 0.1},
                {"client.epochs", std::int64_t{1}},
                {"method.pull", 1.0},
                {"method.steps", std::int64_t{1}}});
  TestBed avg("fedavg", kUnequal, local(0.1, 1));
  tied.round(1);
  avg.round(1);
  for (int j = 0; j < 2; ++j) EXPECT_NEAR(tied.theta()[j], avg.theta()[j], 1e-6);
}

// The envelope of h/2(v − m)² is hλ/(h + λ)/2·(w − m)²: the shared model minimises the sum of these, and each v is the
// proximal point. With λ = 2: curvatures 2/3 and 4/3, so w = (4/3)/(2/3 + 4/3).
TEST(PFedMe, MinimisesTheMoreauEnvelopes) {
  TestBed bed("pfedme", kOneDimension,
              {{"client.lr", 0.1},
               {"client.epochs", std::int64_t{50}},
               {"method.lambda", 2.0},
               {"method.pull", 0.1},
               {"method.steps", std::int64_t{50}}});
  bed.rounds(300);
  EXPECT_NEAR(bed.theta()[0], 2.0 / 3.0, 1e-4);
  EXPECT_NEAR(own(bed, 0), (1 * 0 + 2 * 2.0 / 3) / 3, 1e-4);
  EXPECT_NEAR(own(bed, 1), (4 * 1 + 2 * 2.0 / 3) / 6, 1e-4);
}

TEST(PFedMe, AnUnfinishedBundleOfStepsCountsToo) {
  TestBed bed("pfedme", kOneDimension, local(0.05, 3));
  bed.round(1);
  EXPECT_GT(bed.theta()[0], 0.0f);
}

}  // namespace
}  // namespace parley
