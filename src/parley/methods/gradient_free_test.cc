// fne's rivals on functions whose optimum is known, through the federated fitness.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "parley/base/errors.h"
#include "parley/engine/test_bed.h"
#include "parley/methods/fitness.h"
#include "parley/methods/population.h"

namespace parley {
namespace {

using Settings = TestBed::Settings;

// Outputs (1 − x, 10(y − x²)): against targets of zero the squared error is Rosenbrock's function, least at (1, 1).
class Rosenbrock final : public Model {
 public:
  const Layout& layout() const override { return layout_; }
  std::span<float> parameters() override { return weights_; }
  std::span<float> gradients() override { return weights_; }
  std::size_t outputs() const override { return 2; }
  Loss loss() const override { return Loss::mse; }
  double backward(const Batch&) override {
    ADD_FAILURE() << "a gradient-free method asked for a gradient";
    return 0.0;
  }
  void predict(const Batch& batch, std::span<float> outputs) override {
    for (std::size_t i = 0; i < batch.size; ++i) {
      outputs[2 * i] = 1.0f - weights_[0];
      outputs[2 * i + 1] = 10.0f * (weights_[1] - weights_[0] * weights_[0]);
    }
  }

 private:
  Layout layout_{{{.name = "theta", .shape = {2}}}};
  Flat weights_ = Flat(2);
};

// Two nodes of one example each.
const TestBed::Regression kNoInputs{.x = {{{0}}, {{0}}}, .y = {{{0, 0}}, {{0, 0}}}};

// Two nodes that agree on five dimensions.
TestBed::Quadratics bowl(const std::vector<float>& h) {
  const std::vector<float> m{.5f, -.5f, 1, 0, -1};
  return {.h = {h, h}, .m = {m, m}, .copies = {1, 3}};
}

class Rival : public testing::TestWithParam<std::string> {};

double distance(std::span<const float> theta, std::span<const float> optimum) {
  double worst = 0.0;
  for (std::size_t j = 0; j < theta.size(); ++j) {
    worst = std::max(worst, std::abs(static_cast<double>(theta[j]) - static_cast<double>(optimum[j])));
  }
  return worst;
}

TEST_P(Rival, FindsTheBottomOfASphere) {
  const auto sphere = bowl({1, 1, 1, 1, 1});
  TestBed bed(GetParam(), sphere);
  bed.rounds(300);
  // openes' steps do not shrink at the bottom.
  EXPECT_LT(distance(bed.theta(), sphere.m[0]), GetParam() == "openes" ? 0.05 : 0.001);
}

TEST_P(Rival, RefusesAModelWhoseOutputsCannotDiffer) {
  const auto models = native_models();
  const auto model = [&] {
    return models.at("logistic")
        .make.at("native")(Options("model"), {.input_shape = {1}, .outputs = 1, .loss = Loss::cross_entropy});
  };
  EXPECT_THROW(TestBed(GetParam(), kNoInputs, {}, model), InputError);
}

TEST_P(Rival, ANodesMessageIsItsWeightAndTheFitness) {
  TestBed bed(GetParam(), bowl({1, 1, 1, 1, 1}));
  const Update update = bed.train(1, 0);
  EXPECT_TRUE(update.scalars().empty());
  ASSERT_EQ(update.channels().size(), 1u);
  EXPECT_EQ(update.wire_bytes(), framed(1, 0, update["fitness"].size() * sizeof(float)));
}

INSTANTIATE_TEST_SUITE_P(GradientFree, Rival, testing::Values("cmaes", "de", "openes", "pso"),
                         [](const auto& test) { return test.param; });

// Bent and narrow: what moves weight by weight (a separable Gaussian, a ranked step) needs more rounds than a
// population.
struct InTheValley {
  std::string method;
  Settings settings;
  std::size_t rounds;
};
class Valley : public testing::TestWithParam<InTheValley> {};

TEST_P(Valley, IsFollowedToItsBottom) {
  TestBed bed(GetParam().method, kNoInputs, GetParam().settings, [] { return std::make_unique<Rosenbrock>(); });
  bed.rounds(GetParam().rounds);
  EXPECT_LT(distance(bed.theta(), std::vector<float>{1, 1}), 0.1);
}

INSTANTIATE_TEST_SUITE_P(GradientFree, Valley,
                         testing::Values(InTheValley{"cmaes", {{"method.population", std::int64_t{20}}}, 1000},
                                         InTheValley{"de", {}, 200}, InTheValley{"pso", {}, 200},
                                         InTheValley{"openes", {{"method.sigma", 0.02}, {"method.lr", 0.002}}, 4000}),
                         [](const auto& test) { return test.param.method; });

std::vector<double> fitness_of(TestBed& bed) {
  Sum sum(bed.schema());
  for (std::size_t client = 0; client < bed.clients(); ++client) sum.add(bed.train(1, client));
  const auto mean = sum.take_mean("fitness");
  return {mean.begin(), mean.end()};
}

// In a bowl the best Gaussian is as wide as the bowl: the variances go as 1/h.
TEST(CmaEs, LearnsTheScaleOfEachWeight) {
  TestBed bed("cmaes", bowl({1, 1, 100, 1, 1}));
  bed.rounds(150);
  const auto variance = bed.state().at("variance");
  EXPECT_GT(variance[0] / variance[2], 20.0f);
  EXPECT_LT(variance[0] / variance[2], 500.0f);
}

TEST(CmaEs, BroadcastsTheMeanAndTheVariancesAlone) {
  TestBed bed("cmaes", bowl({1, 1, 1, 1, 1}), {{"method.population", std::int64_t{40}}});
  const Broadcast sent(bed.state());
  EXPECT_EQ(sent.at("variance").size(), 5u);
  for (const char* kept : {"step_path", "shape_path"}) EXPECT_THROW(sent.at(kept), std::logic_error) << kept;
}

TEST(CmaEs, RefusesAPopulationWithoutAFitterHalf) {
  EXPECT_THROW(TestBed("cmaes", bowl({1, 1, 1, 1, 1}), {{"method.population", std::int64_t{3}}}), InputError);
}

// With all nodes in every round the fitness is exact: nobody gives way to a worse one.
TEST(DifferentialEvolution, NoPlaceInThePopulationEverGetsWorse) {
  TestBed bed("de", bowl({1, 2, 3, 4, 5}));
  auto before = fitness_of(bed);
  for (std::size_t round = 1; round <= 20; ++round) {
    bed.round(round);
    const auto now = fitness_of(bed);
    for (std::size_t i = 0; i < 20; ++i) EXPECT_GE(now[i], before[i]);
    before = now;
  }
}

TEST(ParticleSwarm, NoParticlesBestPlaceEverGetsWorse) {
  TestBed bed("pso", bowl({1, 2, 3, 4, 5}));
  auto before = fitness_of(bed);
  for (std::size_t round = 1; round <= 20; ++round) {
    bed.round(round);
    const auto now = fitness_of(bed);
    for (std::size_t i = 20; i < 40; ++i) EXPECT_GE(now[i], before[i]);
    before = now;
  }
}

// Far from the bottom of a sphere the step points there, and its length is that of the ranks, not of the fitness.
TEST(OpenEs, StepsAgainstTheGradientWhateverItsScale) {
  TestBed gentle("openes", bowl({1, 1, 1, 1, 1}), {{"method.pairs", std::int64_t{500}}});
  TestBed steep("openes", bowl({900, 900, 900, 900, 900}), {{"method.pairs", std::int64_t{500}}});
  gentle.round(1);
  steep.round(1);
  EXPECT_LT(distance(gentle.theta(), steep.theta()), 1e-6);
  const auto m = bowl({1, 1, 1, 1, 1}).m[0];
  double along = 0.0, step = 0.0, away = 0.0;
  for (std::size_t j = 0; j < m.size(); ++j) {
    along += gentle.theta()[j] * m[j];
    step += gentle.theta()[j] * gentle.theta()[j];
    away += m[j] * m[j];
  }
  EXPECT_GT(along / std::sqrt(step * away), 0.98);
}

TEST(OpenEs, APlateauGivesNoDirection) {
  TestBed bed("openes", bowl({0, 0, 0, 0, 0}));
  bed.rounds(5);
  EXPECT_EQ(distance(bed.theta(), std::vector<float>(5, 0.0f)), 0.0);
}

TEST(GradientFree, NoOptimiserStateTravels) {
  for (const char* method : {"fne", "cmaes", "de", "pso", "openes"}) {
    Settings settings = local(0.1, 1);
    TestBed plain(method, bowl({1, 1, 1, 1, 1}), settings);
    settings["client.optimizer"] = std::string("adam");
    settings["client.state"] = std::string("central");
    TestBed stateful(method, bowl({1, 1, 1, 1, 1}), settings);
    EXPECT_EQ(stateful.train(1, 0).wire_bytes(), plain.train(1, 0).wire_bytes()) << method;
  }
}

}  // namespace
}  // namespace parley
