// laplace where the answer is known: least squares in one step, K-FAC for one client, and the same step for any split.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "parley/base/errors.h"
#include "parley/engine/test_bed.h"
#include "parley/gauss/matrix_product.h"
#include "parley/gauss/natural_step.h"
#include "parley/model/mlp.h"

namespace parley {
namespace {

using Settings = TestBed::Settings;
using Rows = std::vector<std::vector<float>>;

// One undamped Newton step without a start by local training.
Settings one_newton_step() {
  return {{"method.warm", std::int64_t{0}},
          {"method.step", 1.0},
          {"method.momentum", 0.0},
          {"method.damping", 0.0},
          {"method.prior", 0.0},
          {"method.memory", 0.0},
          {"method.fisher", std::string("exact")},
          {"method.factor_bits", std::int64_t{32}},
          {"method.damping_floor", 0.0},
          {"method.trust", 0.0}};
}

// Three clients that see different directions and different truths.
TestBed::Regression regression(std::size_t outputs) {
  Stream stream(11, "regression");
  TestBed::Regression problem;
  for (std::size_t n = 0; n < 3; ++n) {
    problem.x.emplace_back();
    problem.y.emplace_back();
    for (std::size_t i = 0; i < 20 + 10 * n; ++i) {
      std::vector<float> row{static_cast<float>(stream.normal()), static_cast<float>(stream.normal())}, target;
      row[n % 2] *= 0.3f;
      for (std::size_t o = 0; o < outputs; ++o) {
        const double truth = row[0] * (1.0 + static_cast<double>(n)) - row[1] * static_cast<double>(o) + 0.5;
        target.push_back(static_cast<float>(truth + 0.3 * stream.normal()));
      }
      problem.x.back().push_back(row);
      problem.y.back().push_back(target);
    }
  }
  return problem;
}

// The same examples in the same order, cut elsewhere.
template <class T>
std::vector<std::vector<T>> recut(const std::vector<std::vector<T>>& clients, const std::vector<std::size_t>& sizes) {
  std::vector<T> all;
  for (const auto& client : clients) all.insert(all.end(), client.begin(), client.end());
  std::vector<std::vector<T>> result;
  auto from = all.begin();
  for (const std::size_t size : sizes) {
    result.emplace_back(from, from + static_cast<std::ptrdiff_t>(size));
    from += static_cast<std::ptrdiff_t>(size);
  }
  EXPECT_TRUE(from == all.end());
  return result;
}

// W (outputs × 3, the bias last) of the pooled least squares, by the normal equations.
std::vector<double> least_squares(const TestBed::Regression& problem, std::size_t outputs) {
  std::vector<double> gram(packed_size(3), 0.0), cross(outputs * 3, 0.0);
  for (std::size_t n = 0; n < problem.x.size(); ++n) {
    for (std::size_t i = 0; i < problem.x[n].size(); ++i) {
      const double x[3] = {problem.x[n][i][0], problem.x[n][i][1], 1.0};
      std::size_t at = 0;
      for (std::size_t j = 0; j < 3; ++j) {
        for (std::size_t k = 0; k <= j; ++k) gram[at++] += x[j] * x[k];
        for (std::size_t o = 0; o < outputs; ++o) cross[o * 3 + j] += double{problem.y[n][i][o]} * x[j];
      }
    }
  }
  EXPECT_TRUE(solve_mean(gram, 3, outputs, cross));
  return cross;
}

TEST(Laplace, OneStepIsThePooledLeastSquaresSolutionForAnySplit) {
  constexpr std::size_t kOutputs = 2;
  const auto problem = regression(kOutputs);
  const auto expected = least_squares(problem, kOutputs);
  for (const std::vector<std::size_t>& sizes : {std::vector<std::size_t>{20, 30, 40}, {90}, {1, 88, 1}, {45, 45}}) {
    TestBed bed("laplace", {recut(problem.x, sizes), recut(problem.y, sizes)}, one_newton_step());
    bed.rounds(1);
    for (std::size_t o = 0; o < kOutputs; ++o) {
      for (std::size_t j = 0; j < 2; ++j) EXPECT_NEAR(bed.theta()[o * 2 + j], expected[o * 3 + j], 1e-5);
      EXPECT_NEAR(bed.theta()[kOutputs * 2 + o], expected[o * 3 + 2], 1e-5);
    }
  }
}

TEST(Laplace, AStepOfLeastSquaresKeepsWhatItPromised) {
  TestBed bed("laplace", regression(2), one_newton_step());
  bed.rounds(1);
  const double before = bed.state().scalar("objective"), promised = bed.state().scalar("promised");
  bed.round(2);
  // Both are known from gradients and losses in floats.
  EXPECT_NEAR(before - bed.state().scalar("objective"), promised, 1e-5 * before);
  EXPECT_GT(promised, 0.5 * before);
}

// Examples of three classes, one class after the other.
TestBed::Classification classes(std::uint64_t seed, std::size_t each) {
  Stream stream(seed, "classes");
  TestBed::Classification problem{.x = {{}}, .labels = {{}}, .classes = 3};
  for (std::int32_t label = 0; label < 3; ++label) {
    for (std::size_t i = 0; i < each; ++i) {
      std::vector<float> x;
      for (std::int32_t j = 0; j < 4; ++j) x.push_back(static_cast<float>(stream.normal() + (j == label ? 1.0 : 0.0)));
      problem.x[0].push_back(x);
      problem.labels[0].push_back(label);
    }
  }
  return problem;
}

TestBed::Classification cut(const TestBed::Classification& problem, const std::vector<std::size_t>& sizes) {
  return {recut(problem.x, sizes), recut(problem.labels, sizes), problem.classes};
}

std::unique_ptr<Model> small_net() {
  return make_native_mlp({.widths = {4, 5, 3}, .activation = Activation::tanh});
}
std::unique_ptr<Model> logistic() {
  return make_native_mlp({.widths = {4, 3}});
}

void randomise(TestBed& bed, std::uint64_t seed) {
  Stream stream(seed, "weights");
  for (float& w : bed.theta()) w = static_cast<float>(0.5 * stream.normal());
}

double distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - double{b[i]}, 2);
  return std::sqrt(sum);
}

// Heterogeneity invariance: classes apart, mixed, one example a client; the labels that are drawn go with the rows.
TEST(Laplace, AnySplitOfTheSameExamplesTakesTheSameSteps) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    const auto problem = classes(seed, 20);
    const Settings settings{{"method.warm", std::int64_t{0}}, {"method.factor_bits", std::int64_t{32}}};
    TestBed pooled("laplace", problem, settings, small_net);
    randomise(pooled, seed);
    const Flat start(pooled.theta().begin(), pooled.theta().end());
    pooled.rounds(4);
    EXPECT_GT(distance(pooled.theta(), start), 0.1) << "it has hardly moved";
    Stream stream(seed, "sizes");
    std::vector<std::size_t> random{1 + stream.below(30), 1 + stream.below(20)};
    random.push_back(60 - random[0] - random[1]);
    for (const auto& sizes : {std::vector<std::size_t>{20, 20, 20}, std::vector<std::size_t>(60, 1), random}) {
      TestBed split("laplace", cut(problem, sizes), settings, small_net);
      randomise(split, seed);
      split.rounds(4);
      // Float sums in another order, through four steps whose damping amplifies them by up to 1/√d ≈ 10.
      EXPECT_LT(distance(split.theta(), pooled.theta()), 1e-4);
    }
  }
}

// A and B of the small net from one backward an example and class.
struct PerSample {
  std::vector<float> a1, b1, a2, b2;
  Flat gradient;
};

void add_outer(std::span<const float> x, double weight, std::vector<float>& packed) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j <= i; ++j) packed[at++] += static_cast<float>(weight * double{x[i]} * double{x[j]});
  }
}

PerSample per_sample(Model& model, const TestBed::Classification& problem) {
  PerSample sums{.a1 = std::vector<float>(packed_size(5)),
                 .b1 = std::vector<float>(packed_size(5)),
                 .a2 = std::vector<float>(packed_size(6)),
                 .b2 = std::vector<float>(packed_size(3)),
                 .gradient = Flat(model.layout().size(), 0.0f)};
  const double share = 1.0 / static_cast<double>(problem.x[0].size());
  const auto& entries = model.layout().entries();
  for (std::size_t n = 0; n < problem.x[0].size(); ++n) {
    for (std::int32_t label = 0; label < 3; ++label) {
      const double p = std::exp(-model.backward({.size = 1, .inputs = problem.x[0][n], .labels = {&label, 1}}));
      const auto g = model.gradients();
      // The bias's gradient is δ; the weight's is δ aᵀ.
      add_outer(entries[1].of(g), share * p, sums.b1);
      add_outer(entries[3].of(g), share * p, sums.b2);
      if (label == problem.labels[0][n]) {
        for (std::size_t i = 0; i < g.size(); ++i) sums.gradient[i] += static_cast<float>(share) * g[i];
      }
      if (label > 0) continue;
      std::vector<float> a(problem.x[0][n]), hidden;
      a.push_back(1.0f);
      for (std::size_t j = 0; j < 5; ++j) hidden.push_back(entries[2].of(g)[j] / entries[3].of(g)[0]);
      hidden.push_back(1.0f);
      add_outer(a, share, sums.a1);
      add_outer(hidden, share, sums.a2);
    }
  }
  return sums;
}

TEST(Laplace, OneClientIsKfacOnItsData) {
  const auto problem = classes(3, 10);
  Settings settings{{"method.warm", std::int64_t{0}},
                    {"method.fisher", std::string("exact")},
                    {"method.factor_bits", std::int64_t{32}},
                    {"method.trust", 0.0}};
  TestBed bed("laplace", problem, settings, small_net);
  randomise(bed, 3);
  const Flat before(bed.theta().begin(), bed.theta().end());
  const auto model = small_net();
  std::ranges::copy(before, model->parameters().begin());
  const PerSample expected = per_sample(*model, problem);

  const Update update = bed.train(1, 0);
  const Schema schema = bed.method().schema();
  const auto near = [](std::span<const float> found, const std::vector<float>& first,
                       const std::vector<float>& second) {
    std::vector<float> both(first);
    both.insert(both.end(), second.begin(), second.end());
    ASSERT_EQ(found.size(), both.size());
    for (std::size_t i = 0; i < both.size(); ++i) EXPECT_NEAR(found[i], both[i], 1e-5);
  };
  near(update["inputs"], expected.a1, expected.a2);
  near(update["outputs"], expected.b1, expected.b2);

  // −η (B + √d/π)⁻¹ (G + pW) (A + √d·π)⁻¹ with the defaults η = 1, damping .01, p = .001.
  bed.rounds(1);
  const auto& entries = model->layout().entries();
  for (std::size_t l = 0; l < 2; ++l) {
    const auto &weight = entries[2 * l], &bias = entries[2 * l + 1];
    const std::size_t rows = bias.size, in = weight.size / rows;
    std::vector<double> g;
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < in; ++j) {
        const std::size_t place = weight.offset + i * in + j;
        g.push_back(double{expected.gradient[place]} + 0.001 * double{before[place]});
      }
      g.push_back(double{expected.gradient[bias.offset + i]} + 0.001 * double{before[bias.offset + i]});
    }
    const FisherFactors factors{rows, in + 1, l == 0 ? expected.a1 : expected.a2, l == 0 ? expected.b1 : expected.b2};
    ASSERT_TRUE(precondition(factors, 0.011, std::vector<std::span<double>>{g}));
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < in; ++j) {
        const std::size_t place = weight.offset + i * in + j;
        EXPECT_NEAR(bed.theta()[place] - before[place], -g[i * (in + 1) + j], 1e-4);
      }
    }
  }
}

// Labels that are drawn give B in the mean; over many examples it is near.
TEST(Laplace, DrawnLabelsGiveNearlyTheExactFactor) {
  const auto problem = classes(4, 2000);
  Settings exact{{"method.warm", std::int64_t{0}}, {"method.fisher", std::string("exact")}};
  TestBed drawn("laplace", problem, {{"method.warm", std::int64_t{0}}}, logistic),
      all("laplace", problem, exact, logistic);
  randomise(drawn, 4);
  randomise(all, 4);
  const Flat found = drawn.train(1, 0)["outputs"], expected = all.train(1, 0)["outputs"];
  // Entries of one example lie in [−1, 1]: five standard errors of a mean of 6000.
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 5.0 / std::sqrt(6000.0));
  EXPECT_NE(found, expected);
}

TEST(Laplace, NoStepChangesNothing) {
  TestBed bed("laplace", classes(1, 10), {{"method.warm", std::int64_t{0}}, {"method.step", 0.0}}, small_net);
  randomise(bed, 1);
  const Flat before(bed.theta().begin(), bed.theta().end());
  bed.rounds(3);
  EXPECT_TRUE(std::ranges::equal(bed.theta(), before));
}

// Two clients with classes of their own, where averages of local optima are nowhere near.
TEST(Laplace, LogisticRegressionOnDisjointClassesReachesThePooledOptimum) {
  const auto problem = classes(7, 30);
  constexpr double kPrior = 0.1;
  const Settings settings{{"method.warm", std::int64_t{0}}, {"method.step", 0.5},    {"method.momentum", 0.0},
                          {"method.prior", kPrior},         {"method.damping", 0.0}, {"method.damping_floor", 0.0}};
  TestBed bed("laplace", cut(problem, {60, 30}), settings, logistic);
  bed.rounds(100);
  const auto model = logistic();
  std::ranges::copy(bed.theta(), model->parameters().begin());
  std::vector<float> inputs;
  for (const auto& x : problem.x[0]) inputs.insert(inputs.end(), x.begin(), x.end());
  model->backward({.size = problem.x[0].size(), .inputs = inputs, .labels = problem.labels[0]});
  // The objective is p-strongly convex: the distance to its minimum is at most ‖gradient‖/p.
  double squares = 0.0;
  for (std::size_t i = 0; i < bed.theta().size(); ++i) {
    squares += std::pow(double{model->gradients()[i]} + kPrior * double{bed.theta()[i]}, 2);
  }
  // Clients send their gradients as floats of up to about 1, so each of its numbers is known to half an epsilon.
  const double rounding = 0.5 * double{std::numeric_limits<float>::epsilon()} * std::sqrt(double(bed.theta().size()));
  EXPECT_LT(std::sqrt(squares) / kPrior, rounding / kPrior);
}

TEST(Laplace, ManyExamplesLeaveLessOfThePriorToEach) {
  const auto prior_of = [](std::size_t rows) {
    TestBed bed("laplace", classes(2, rows), {{"method.warm", std::int64_t{0}}}, logistic);
    bed.rounds(1);
    return bed.state().scalar("prior");
  };
  EXPECT_DOUBLE_EQ(prior_of(50), 1e-3);
  EXPECT_DOUBLE_EQ(prior_of(10'000), 20.0 / 30'000.0);
}

TEST(Laplace, TheWarmRoundIsFolasStructuredProduct) {
  const auto problem = regression(2);
  TestBed warm("laplace", problem, with(local(0.1, 5), "method.factor_bits", std::int64_t{32}));
  TestBed fola("fola", problem, with(local(0.1, 5), "method.curvature", std::string("input")));
  warm.rounds(1);
  fola.rounds(1);
  EXPECT_LT(distance(warm.theta(), fola.theta()), 1e-5);
}

// The first layer's inputs are the data, so its A goes up once; B and the other A every second round.
TEST(Laplace, FactorsTravelOnceOrEveryFewRounds) {
  const Settings floats{{"method.warm", std::int64_t{0}}, {"method.factor_bits", std::int64_t{32}}};
  TestBed bed("laplace", classes(2, 10), floats, small_net);
  std::vector<std::size_t> bytes;
  for (std::size_t round = 1; round <= 3; ++round) {
    bytes.push_back(bed.train(round, 0).wire_bytes());
    bed.round(round);
  }
  const std::size_t fixed = packed_size(5), others = packed_size(5) + packed_size(6) + packed_size(3);
  const std::size_t named = 4 + 2 * sizeof(std::uint64_t);  // what is left out, by place and size
  EXPECT_EQ(bytes[0] - bytes[2], fixed * sizeof(float) - named);
  EXPECT_EQ(bytes[2] - bytes[1], others * sizeof(float) + named - 2 * sizeof(float));  // two channels that are all zero
}

// A byte for what is off the diagonal, a float for what is on it.
TEST(Laplace, FactorsTravelInAByteANumber) {
  const Settings cold{{"method.warm", std::int64_t{0}}, {"method.factor_bits", std::int64_t{8}}};
  TestBed bytes("laplace", classes(2, 10), cold, small_net),
      floats("laplace", classes(2, 10), with(cold, "method.factor_bits", std::int64_t{32}), small_net);
  std::size_t off = 0;
  for (const std::size_t width : {5, 5, 6, 3}) off += packed_size(width) - width;
  const Update sent = bytes.train(1, 0);
  // The bits stand before each, the number of layers before A.
  EXPECT_EQ(floats.train(1, 0).wire_bytes() - sent.wire_bytes(), 3 * off - 4 - sizeof(std::uint32_t));
  for (const bool known : {false, true}) {
    const Update update = known ? (bytes.rounds(2), bytes.train(3, 0)) : bytes.train(1, 0);
    const Update read = Update::decode(update.encode(), bytes.schema(), Broadcast(bytes.state(), known ? 3 : 1));
    for (const char* name : {"inputs", "outputs"}) {
      EXPECT_TRUE(std::ranges::equal(read[name], update[name])) << name;
    }
  }
}

// Who comes later sends it then; the server has the mean over everyone who did.
TEST(Laplace, TheFirstLayersMomentsAreThoseOfAllWhoEverTookPart) {
  const auto problem = classes(2, 10);
  const Settings floats{{"method.warm", std::int64_t{0}}, {"method.factor_bits", std::int64_t{32}}};
  TestBed all("laplace", problem, floats, small_net), turns("laplace", cut(problem, {20, 10}), floats, small_net);
  all.rounds(1);
  for (const std::size_t round : {1, 2, 3, 4, 5}) turns.round(round, {round == 3 ? std::size_t{1} : std::size_t{0}});
  const auto expected = all.state().at("inputs").first(packed_size(5)), found = turns.state().at("inputs");
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5);
}

TEST(Laplace, InputCurvatureSendsOneNumberALayerForB) {
  Settings input{{"method.warm", std::int64_t{0}},
                 {"method.curvature", std::string("input")},
                 {"method.factor_bits", std::int64_t{32}}};
  TestBed bed("laplace", classes(2, 10), input, small_net),
      kfac("laplace", classes(2, 10), with(input, "method.curvature", std::string("kfac")), small_net);
  const std::size_t b = packed_size(5) + packed_size(3);
  EXPECT_EQ(kfac.train(1, 0).wire_bytes() - bed.train(1, 0).wire_bytes(), (b - 2) * sizeof(float));
  bed.rounds(1);
  kfac.rounds(1);
  const auto outputs = bed.state().at("outputs");
  EXPECT_EQ(outputs[1], 0.0f);
  EXPECT_FLOAT_EQ(outputs[0], outputs[2]);
  float trace = 0.0f;
  for (std::size_t i = 0; i < 5; ++i) trace += kfac.state().at("outputs")[packed_size(i + 1) - 1];
  EXPECT_NEAR(outputs[0], trace / 5.0f, 1e-6);
}

TEST(Laplace, StepsStayWithinTheTrustRegion) {
  const auto problem = classes(2, 10);
  const Settings settings{{"method.warm", std::int64_t{0}}, {"method.trust", 0.0}};
  TestBed free("laplace", problem, settings, small_net),
      held("laplace", problem, with(settings, "method.trust", 1e-4), small_net);
  randomise(free, 2);
  randomise(held, 2);
  const Flat before(free.theta().begin(), free.theta().end());
  free.rounds(1);
  held.rounds(1);
  EXPECT_GT(distance(held.theta(), before), 0.0);
  EXPECT_LT(distance(held.theta(), before), 0.5 * distance(free.theta(), before));
}

// The gradient's own changes find the optimum where the factors, drowned in damping, hardly point the way.
TEST(Laplace, SecantsMakeUpForCurvatureThatIsWrong) {
  const auto problem = classes(8, 30);
  const Settings settings{{"method.warm", std::int64_t{0}}, {"method.step", 1.0},          {"method.momentum", 0.0},
                          {"method.damping", 5.0},          {"method.damping_floor", 5.0}, {"method.prior", 0.01}};
  const auto loss_after = [&](std::size_t rounds, std::int64_t secants) {
    TestBed bed("laplace", problem, with(settings, "method.secants", secants), small_net);
    randomise(bed, 8);
    bed.rounds(rounds);
    return bed.state().scalar("objective");
  };
  EXPECT_LT(loss_after(15, 3), loss_after(30, 0));
}

TEST(Laplace, AStepThatLedUpwardsIsTakenBack) {
  TestBed bed("laplace", classes(2, 20), {{"method.warm", std::int64_t{0}}}, small_net);
  randomise(bed, 2);
  const Flat start(bed.theta().begin(), bed.theta().end());
  bed.rounds(1);
  const double first = bed.state().scalar("objective");
  Update update = bed.train(2, 0);
  update.scalar("loss") = 10.0;
  Sum sum(bed.schema());
  sum.add(update);
  bed.serve(2, sum);
  EXPECT_EQ(bed.state().scalar("objective"), first);
  EXPECT_EQ(bed.state().scalar("secants"), 1.0);
  const auto step = bed.state().at("velocity");
  EXPECT_GT(distance(bed.theta(), start), 0.0);
  for (std::size_t i = 0; i < start.size(); ++i) EXPECT_NEAR(bed.theta()[i] - step[i], start[i], 1e-6);
}

// A round without one of them has another objective: what the gradient changed by is not what the step did.
TEST(Laplace, SecantsAreLearntFromTheSameExamplesOnly) {
  TestBed bed("laplace", cut(classes(5, 20), {40, 20}), {{"method.warm", std::int64_t{0}}}, small_net);
  randomise(bed, 5);
  bed.round(1, {0, 1});
  bed.round(2, {0});
  EXPECT_EQ(bed.state().scalar("secants"), 0.0);
  bed.round(3, {0});
  EXPECT_EQ(bed.state().scalar("secants"), 1.0);
}

// One input is always zero: without damping its row of A is no more than zeros.
TEST(Laplace, ASingularFactorIsDampedInsteadOfGivingNaN) {
  auto problem = regression(1);
  for (auto& client : problem.x) {
    for (auto& x : client) x[0] = 0.0f;
  }
  TestBed bed("laplace", problem, one_newton_step());
  bed.rounds(3);
  for (const float w : bed.theta()) EXPECT_TRUE(std::isfinite(w));
  EXPECT_EQ(bed.theta()[0], 0.0f);
}

TEST(Laplace, ACohortWithoutAClassIsNoTrouble) {
  TestBed bed("laplace", cut(classes(5, 20), {40, 20}), {{"method.warm", std::int64_t{0}}}, small_net);
  randomise(bed, 5);
  for (std::size_t round = 1; round <= 6; ++round) bed.round(round, {round % 2});
  for (const float w : bed.theta()) EXPECT_TRUE(std::isfinite(w));
}

TEST(Laplace, ALossThatRisesForTenRoundsIsAnError) {
  TestBed bed("laplace", classes(5, 10), {{"method.warm", std::int64_t{0}}}, small_net);
  const auto rise = [&](std::size_t round) {
    Update update = bed.train(round, 0);
    update.scalar("loss") = static_cast<double>(round);
    Sum sum(bed.schema());
    sum.add(update);
    bed.serve(round, sum);
  };
  for (std::size_t round = 1; round <= 10; ++round) rise(round);
  EXPECT_THROW(rise(11), RunError);
}

// Steps that are cut by no limit: after K of them in an exact metric, a client is at its own least squares solution.
TEST(Laplace, LocalStepsGoOnInTheClientsOwnMetric) {
  const auto problem = regression(2);
  auto settings =
      with(with(one_newton_step(), "method.factors_every", std::int64_t{1}), "method.secants", std::int64_t{0});
  TestBed once("laplace", problem, settings);
  TestBed twice("laplace", problem, with(settings, "method.local_steps", std::int64_t{2}));
  const Update one = once.train(1, 0), two = twice.train(1, 0);
  // There the second gradient is zero, so the sums are alike.
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(two["gradient"][i], one["gradient"][i], 1e-5);
  auto half = with(settings, "method.step", 0.5);
  TestBed short_steps("laplace", problem, with(half, "method.local_steps", std::int64_t{2}));
  const Update both = short_steps.train(1, 0);
  // Half way there half the gradient is left.
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(both["gradient"][i], 1.5f * one["gradient"][i], 1e-5);
}

struct AskedModel {
  Flat weights;
  double loss, shared_loss;
};

// The client's own model, as evaluate.clients would ask it.
AskedModel own_model(TestBed& bed, std::size_t round, std::size_t client, Model& model) {
  const Options client_options = TestBed::client_options("sgd");
  LocalTrainer trainer(optimizers().at("sgd").make(client_options));
  const LocalOptions local(client_options);
  ClientMemory memory(bed.store().load(client));
  const ClientTask task{.round = round,
                        .client = client,
                        .seed = 1,
                        .broadcast = Broadcast(bed.state(), round),
                        .data = {.data = &bed.data(), .rows = bed.rows(client)},
                        .model = model,
                        .trainer = trainer,
                        .local = local,
                        .memory = memory,
                        .initial = {}};
  task.load();
  const double shared = task.loss();
  personal_of(bed.method()).load_own(task, 0);
  return {{model.parameters().begin(), model.parameters().end()}, task.loss(), shared};
}

TEST(Laplace, AClientsOwnModelHasALastLayerOfItsOwn) {
  Settings settings{{"method.warm", std::int64_t{0}}, {"method.personal_steps", std::int64_t{3}}};
  TestBed bed("laplace", cut(classes(9, 20), {20, 40}), settings, small_net);
  randomise(bed, 9);
  const auto model = small_net();
  EXPECT_TRUE(std::ranges::equal(own_model(bed, 1, 0, *model).weights, bed.theta())) << "nothing is known of it yet";
  bed.rounds(4);
  const std::size_t hidden = 5 * 4 + 5;
  Flat owns[2];
  for (std::size_t client = 0; client < 2; ++client) {
    const auto own = own_model(bed, 5, client, *model);
    EXPECT_LT(own.loss, 0.9 * own.shared_loss);
    for (std::size_t i = 0; i < hidden; ++i) EXPECT_EQ(own.weights[i], bed.theta()[i]);
    owns[client] = own.weights;
  }
  EXPECT_GT(distance(owns[0], owns[1]), 0.01);
}

TEST(Laplace, RefusesWhatItCannotHonour) {
  const auto problem = regression(1);
  EXPECT_THROW(TestBed("laplace", problem, {{"method.local_steps", std::int64_t{2}}}), InputError);

  const TestBed::Quadratics no_layers{.h = {{1}}, .m = {{1}}};
  EXPECT_THROW(TestBed("laplace", no_layers, {{"method.fisher", std::string("exact")}}), InputError);
  EXPECT_THROW(TestBed("laplace", no_layers, {{"method.personal_steps", std::int64_t{1}}}), InputError);
  EXPECT_THROW(TestBed("laplace", no_layers, {{"method.damping_floor", 2.0}, {"method.damping_cap", 1.0}}), InputError);
  EXPECT_THROW(TestBed("laplace", no_layers, {{"method.factor_bits", std::int64_t{12}}}), InputError);
}

// Layers that are too wide for two matrices are stepped by a diagonal.
TEST(Laplace, AWideLayerHasADiagonal) {
  Settings settings{{"method.warm", std::int64_t{0}}, {"method.widest", std::int64_t{5}}};
  TestBed bed("laplace", classes(6, 20), settings, small_net);
  randomise(bed, 6);
  const Schema schema = bed.method().schema();
  EXPECT_EQ(schema.channels[schema.channel("inputs")].size(), packed_size(5));
  EXPECT_EQ(schema.channels[schema.channel("rest")].size(), 3u * 6u);
  const Flat before(bed.theta().begin(), bed.theta().end());
  bed.rounds(3);
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NE(bed.theta()[i], before[i]);
}

}  // namespace
}  // namespace parley
