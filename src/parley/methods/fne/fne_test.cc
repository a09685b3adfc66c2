// Breeding on known vectors, and what a generation must keep.
#include "parley/methods/fne/fne.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "parley/base/errors.h"
#include "parley/engine/test_bed.h"
#include "parley/methods/fitness.h"
#include "parley/methods/fne/breeding.h"
#include "parley/methods/population.h"
#include "parley/model/mlp.h"

namespace parley {
namespace {

using Floats = std::vector<float>;
using Settings = TestBed::Settings;

const TestBed::Quadratics kFour{.h = {{2, .5f, 1}, {.1f, 5, 1}, {1, 1, 3}, {4, .2f, .5f}},
                                .m = {{.1f, .1f, 0}, {-.1f, .3f, .2f}, {0, 0, .1f}, {.2f, -.2f, .5f}},
                                .copies = {2, 3, 1, 4}};

std::unique_ptr<Model> small_mlp() {
  return make_native_mlp({.widths = {2, 4, 1}, .activation = Activation::tanh, .loss = Loss::mse});
}

// A node for each line of the table.
const TestBed::Regression kXor{.x = {{{0, 0}}, {{0, 1}}, {{1, 0}}, {{1, 1}}}, .y = {{{0}}, {{1}}, {{1}}, {{0}}}};

Layout flat_layout(std::int64_t size) {
  return Layout({{.name = "w", .shape = {size}}});
}

Floats crossed(Crossover::Kind kind, const Floats& a, const Floats& b, std::uint64_t seed = 1) {
  Floats child(a.size());
  Stream stream(seed, "test");
  Crossover(kind, flat_layout(static_cast<std::int64_t>(a.size()))).cross(a, b, stream, child);
  return child;
}

TEST(Crossover, OnTheFlatVectorFollowsTheEquations) {
  const Floats a{1, 2, 3, 4, 5}, b{-1, -2, -3, -4, -5};
  EXPECT_EQ(crossed(Crossover::Kind::halving, a, b), (Floats{1, 2, -3, -4, -5}));     // i ≤ 5/2, counted from 1
  EXPECT_EQ(crossed(Crossover::Kind::interleave, a, b), (Floats{-1, 2, -3, 4, -5}));  // even i from a
  EXPECT_EQ(crossed(Crossover::Kind::mean, a, Floats{3, 2, 1, 0, 0}), (Floats{2, 2, 2, 2, 2.5f}));
}

TEST(Crossover, GroupsAreKernelPositionsAndDenseUnits) {
  const Layout layout({{.name = "conv.weight", .shape = {2, 1, 1, 2}},
                       {.name = "conv.bias", .shape = {2}, .role = Role::bias},
                       {.name = "fc.weight", .shape = {2, 3}},
                       {.name = "fc.bias", .shape = {2}, .role = Role::bias},
                       {.name = "norm.weight", .shape = {2}, .role = Role::norm_scale},
                       {.name = "norm.mean", .shape = {2}, .role = Role::running_mean}});
  EXPECT_EQ(kernelwise_groups(layout), (std::vector<std::uint32_t>{0, 1, 0, 1, 2, 3, 4, 4, 4, 5, 5, 5, 4, 5, 6, 7}));
}

TEST(Crossover, AKernelwiseChildsGroupsEachEqualOneParents) {
  const auto model = small_mlp();
  const auto groups = kernelwise_groups(model->layout());
  const Floats a(groups.size(), 1.0f), b(groups.size(), 2.0f);
  const Crossover crossover(Crossover::Kind::kernelwise, model->layout());
  std::set<float> seen;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    Stream stream(seed, "test");
    Floats child(groups.size());
    crossover.cross(a, b, stream, child);
    std::map<std::uint32_t, float> of_group;
    for (std::size_t i = 0; i < child.size(); ++i) {
      EXPECT_EQ(of_group.try_emplace(groups[i], child[i]).first->second, child[i]);
    }
    seen.insert(child.begin(), child.end());
  }
  EXPECT_EQ(seen, (std::set<float>{1.0f, 2.0f}));
}

Floats mutated(const Mutation& mutation, float weight, double boost = 1.0) {
  Floats weights(10000, weight);
  Stream stream(1, "test");
  mutation.mutate(boost, stream, weights);
  return weights;
}

TEST(Mutation, ChangesItsShareOfTheWeightsWithinItsRange) {
  const auto changed = [](const Floats& weights) {
    return weights.size() - static_cast<std::size_t>(std::ranges::count(weights, 2.0f));
  };
  const Floats multiplied = mutated({Mutation::Kind::multiply, 0.05, 20, 0.1}, 2.0f);
  EXPECT_NEAR(static_cast<double>(changed(multiplied)), 500.0, 70.0);
  for (const float w : multiplied) EXPECT_NEAR(w, 2.0, 0.4 + 1e-6);
  const Floats moved = mutated({Mutation::Kind::offset, 1.0, 20, 0.1}, 2.0f);
  EXPECT_GE(changed(moved), 9990u);
  for (const float w : moved) EXPECT_NEAR(w, 2.0, 0.1 + 1e-6);
  EXPECT_NEAR(static_cast<double>(changed(mutated({Mutation::Kind::mixture, 0.05, 20, 0.1}, 2.0f, 10.0))), 5000, 200);
  EXPECT_EQ(changed(mutated({Mutation::Kind::mixture, 0.0, 20, 0.1}, 2.0f)), 0u);
}

// Why the mixture exists.
TEST(Mutation, MultiplyingCannotLeaveZeroAndTheMixtureCan) {
  EXPECT_EQ(mutated({Mutation::Kind::multiply, 1.0, 20, 0.1}, 0.0f), Floats(10000, 0.0f));
  const Floats mixed = mutated({Mutation::Kind::mixture, 1.0, 20, 0.1}, 0.0f);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(mixed, 0.0f)), 5000.0, 200.0);
}

TEST(Fne, RateZeroOnlyRecombines) {
  TestBed bed("fne", kFour, {{"method.rate", 0.0}, {"method.offset", 0.0}});
  const Flat first(bed.state().at("population").begin(), bed.state().at("population").end());
  bed.rounds(5);
  const auto last = bed.state().at("population");
  for (std::size_t i = 0; i < last.size(); ++i) {
    bool inherited = false;
    for (std::size_t j = i % 3; j < first.size(); j += 3) inherited |= first[j] == last[i];
    EXPECT_TRUE(inherited) << i;
  }
}

std::vector<double> fitness_of(TestBed& bed) {
  Sum sum(bed.schema());
  for (std::size_t client = 0; client < bed.clients(); ++client) sum.add(bed.train(1, client));
  const auto mean = sum.take_mean("fitness");
  return {mean.begin(), mean.end()};
}

TEST(Fne, FitnessOverAllNodesIsFitnessOnThePooledData) {
  TestBed nodes("fne", kXor, {}, small_mlp);
  TestBed pooled("fne", {.x = {{{0, 0}, {0, 1}, {1, 0}, {1, 1}}}, .y = {{{0}, {1}, {1}, {0}}}}, {}, small_mlp);
  const auto a = fitness_of(nodes), b = fitness_of(pooled);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6);
  EXPECT_NE(a[0], a[1]);
}

TEST(Fne, OnAFixedEvaluationSetTheBestFitnessNeverFalls) {
  TestBed bed("fne", kXor, {}, small_mlp);
  double best = -1e9;
  for (std::size_t round = 1; round <= 40; ++round) {
    const double now = std::ranges::max(fitness_of(bed));
    EXPECT_GE(now, best);
    best = now;
    bed.round(round);
  }
}

TEST(Fne, SolvesXor) {
  TestBed bed("fne", kXor, {}, small_mlp);
  bed.rounds(300);
  const auto model = small_mlp();
  std::ranges::copy(bed.theta(), model->parameters().begin());
  const Floats inputs{0, 0, 0, 1, 1, 0, 1, 1}, answers{0, 1, 1, 0};
  Floats outputs(4);
  model->predict({.size = 4, .inputs = inputs}, outputs);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(outputs[i], answers[i], 0.2);
}

// Two outputs, of which one is always wrong by 1 and the other by 3: a sum of 10, a mean of 5.
TEST(Fne, SaysTheMeanErrorOfARegression) {
  const auto nothing = [] { return make_native_mlp({.widths = {1, 2}, .loss = Loss::mse}); };
  TestBed bed("fne", {.x = {{{0}}}, .y = {{{1, 3}}}},
              {{"method.population", std::int64_t{2}}, {"method.parents", std::int64_t{2}}}, nothing);
  std::ranges::fill(bed.state().at("population"), 0.0f);
  Sum sum(bed.schema());
  sum.add(bed.train(1, 0));
  const ServerStepRegistry steps = server_steps();
  const auto step = steps.at("replace").make(Options("server", steps.at("replace").about.options));
  ServerTask task{.round = 1, .clients = 1, .state = bed.state(), .sum = sum, .step = *step};
  bed.method().server(task);
  EXPECT_NEAR(task.metrics.at("fitness_best"), -10.0, 1e-6);
  EXPECT_NEAR(task.metrics.at("nmse"), -5.0, 1e-6);
}

TEST(Fne, ANodesMessageIsItsWeightAndTheFitness) {
  TestBed bed("fne", kXor, {}, small_mlp);
  EXPECT_EQ(bed.method().schema().channels.size(), 1u);
  EXPECT_TRUE(bed.method().schema().scalars.empty());
  EXPECT_EQ(bed.train(1, 0).wire_bytes(), framed(1, 0, 50 * sizeof(float)));
}

// One example has no neighbours to average with: its fitness is one of the four lines' own.
TEST(Fne, ASingleSampleIsOneExampleOfTheNode) {
  const TestBed::Quadratics one{.h = {{1}}, .m = {{0}}, .copies = {4}, .spread = {{1}}};
  TestBed bed("fne", one, {{"method.evaluation", std::string("single_sample")}});
  const Update update = bed.train(1, 0);
  EXPECT_EQ(update.training.examples, 50u);
  const float theta = bed.theta()[0];
  EXPECT_FLOAT_EQ(update.channels()[0][0], -0.5f * (std::abs(theta) + 1) * (std::abs(theta) + 1));
}

TEST(Fne, TheWindowMovesAndASingleNodeIsDrawn) {
  const std::vector<std::size_t> holders{0, 2, 3, 7};
  const TestBed window("fne", kFour,
                       {{"method.evaluation", std::string("moving_window")}, {"method.move_every", std::int64_t{2}}});
  const auto in_round = [&](std::size_t round) {
    return window.method().cohort_rule()->cohort({.seed = 1, .round = round, .holders = holders, .wanted = 2});
  };
  EXPECT_EQ(in_round(1), (std::vector<std::size_t>{0, 2}));
  EXPECT_EQ(in_round(2), in_round(1));
  EXPECT_EQ(in_round(3), (std::vector<std::size_t>{2, 3}));
  EXPECT_EQ(in_round(7), (std::vector<std::size_t>{7, 0}));  // and round again

  const TestBed single("fne", kFour, {{"method.evaluation", std::string("single_sample")}});
  std::set<std::size_t> asked;
  for (std::size_t round = 1; round <= 50; ++round) {
    const auto cohort =
        single.method().cohort_rule()->cohort({.seed = 1, .round = round, .holders = holders, .wanted = 3});
    ASSERT_EQ(cohort.size(), 1u);
    asked.insert(cohort[0]);
  }
  EXPECT_EQ(asked, (std::set<std::size_t>(holders.begin(), holders.end())));
}

// Without mutation there is soon nothing new, and the validation repeats, whoever measures the fitness.
TEST(Fne, MutationsGrowWhileStuckAndAreResetOnceOut) {
  TestBed bed("fne", kFour, {{"method.chance", 0.0}, {"method.escape_limit", 3.0}});
  for (std::size_t round = 1; round <= 60; ++round) bed.round(round, {round % 4});  // other nodes every time
  EXPECT_DOUBLE_EQ(bed.state().scalar("fne_boost"), 3.0);
  std::ranges::fill(bed.state().at("validation"), -100.0f);
  bed.round(61);
  EXPECT_DOUBLE_EQ(bed.state().scalar("fne_boost"), 1.0);
}

TEST(Fne, WithPatienceTheBestIsKeptAndEvolutionStops) {
  TestBed bed("fne", kFour, {{"method.patience", std::int64_t{5}}, {"method.chance", 0.0}});
  bed.rounds(60);  // recombination is exhausted long before
  const Flat saved(bed.theta().begin(), bed.theta().end());
  EXPECT_TRUE(std::ranges::equal(candidate(std::span<const float>(bed.state().at("population")), 0, 3), saved));
  const Flat population(bed.state().at("population").begin(), bed.state().at("population").end());
  bed.round(61);
  EXPECT_TRUE(bed.finished());
  EXPECT_TRUE(std::ranges::equal(bed.state().at("population"), population));
  EXPECT_TRUE(std::ranges::equal(bed.theta(), saved));
}

TEST(Fne, OneRunawayCandidateDoesNotCostANodeItsAnswer) {
  TestBed bed("fne", kFour);
  bed.state().at("population")[3] = std::numeric_limits<float>::infinity();
  const Update update = bed.train(1, 0);
  EXPECT_NO_THROW(update.check(*bed.schema()));
  EXPECT_EQ(std::ranges::min_element(update.channels()[0]) - update.channels()[0].begin(), 1);
  EXPECT_TRUE(std::isfinite(update.training.loss_sum));
}

std::string refusal(const Settings& settings, const NewModel& new_model = small_mlp) {
  try {
    TestBed("fne", kXor, settings, new_model);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

TEST(Fne, RefusesWhatCannotEvolve) {
  EXPECT_EQ(refusal({{"method.population", std::int64_t{5}}}),
            "method.parents = 10: there are only 5 individuals to choose them from; raise method.population or lower "
            "this");
  EXPECT_EQ(refusal({{"method.elites", std::int64_t{50}}}),
            "method.elites = 50: no place is left for a child in a population of 50; raise method.population or lower "
            "this");
  EXPECT_EQ(refusal({{"method.patience", std::int64_t{5}}, {"server.examples", std::int64_t{0}}}),
            "server.examples = 0: method.patience = 5 judges each generation on examples that the server holds itself; "
            "set for example 200");
  EXPECT_NE(refusal({},
                    [] {
                      return make_native_mlp({.widths = {2, 1}});
                    })
                .find("use \"mse\", or data of two classes or more"),
            std::string::npos);
}

}  // namespace
}  // namespace parley
