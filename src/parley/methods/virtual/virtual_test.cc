// Known answers of VIRTUAL on linear regression, where the exact posterior is known.
#include <gtest/gtest.h>

#include <cmath>

#include "parley/base/errors.h"
#include "parley/engine/test_bed.h"
#include "parley/methods/virtual/ivon.h"
#include "parley/model/mlp.h"
#include "parley/model/variational.h"

namespace parley {
namespace {

using Settings = TestBed::Settings;

// Linear regression with noise of variance 1 and two weights: −log p(t|x, w) = ½(w·x − t)². Its variational form gives
// the expectation under the posterior exactly, ½((μ·x − t)² + Σx²σ²), so nothing in these tests is noise.
class ExactGaussian final : public Variational {
 public:
  explicit ExactGaussian(const Layout& layout, std::vector<LayoutEntry> own = {}) : Variational(layout, own) {}
  std::size_t outputs() const override { return 1; }
  Loss loss() const override { return Loss::mse; }
  void predict(const Batch&, std::span<float>) override {}
  void start_private(Stream&, std::span<float> means) const override { std::ranges::fill(means, 0.0f); }

 private:
  double backward_once(const Batch& batch) override {
    update_variances();
    std::ranges::fill(gradients(), 0.0f);
    double loss = 0.0;
    const auto rows = static_cast<float>(batch.size);
    for (std::size_t row = 0; row < batch.size; ++row) {
      const auto x = batch.inputs.subspan(2 * row, 2);
      const float error = means()[0] * x[0] + means()[1] * x[1] - batch.targets[row];
      loss += 0.5 * error * error;
      for (std::size_t j = 0; j < 2; ++j) {
        loss += 0.5 * x[j] * x[j] * variances()[j];
        gradients()[j] += error * x[j] / rows;
        gradients()[2 + j] += 0.5f * x[j] * x[j] / rows;  // by the variance
      }
    }
    from_variance_to_rho();
    return loss / rows;
  }
};

// The same with the second weight a client's own.
enum class Second { shared, its_own };

class Exact final : public Model {
 public:
  explicit Exact(Second second = Second::shared)
      : layout_({{.name = "fc1.weight", .shape = {1, second == Second::shared ? 2 : 1}}}) {}
  const Layout& layout() const override { return layout_; }
  std::span<float> parameters() override { return std::span(parameters_).first(layout_.size()); }
  std::span<float> gradients() override { return parameters(); }
  double backward(const Batch&) override { return 0.0; }
  void predict(const Batch&, std::span<float>) override {}
  std::size_t outputs() const override { return 1; }
  Loss loss() const override { return Loss::mse; }
  std::unique_ptr<Variational> variational(bool with_private) const override {
    if (!with_private) return std::make_unique<ExactGaussian>(layout_);
    return std::make_unique<ExactGaussian>(layout_, std::vector<LayoutEntry>{{"private/fc1.weight", {1, 1}}});
  }

 private:
  Layout layout_;
  std::array<float, 2> parameters_{};
};

// Three clients of different sizes, whose inputs are correlated.
const TestBed::Regression kThree{.x = {{{1, .5f}, {.5f, 1}, {1, -1}}, {{2, 1}, {0, 1}}, {{-1, .3f}}},
                                 .y = {{{1}, {2}, {0}}, {{1}, {-1}}, {{.5f}}}};

struct Posterior {
  double mean[2], precision[2];
};

// Λ = ΣxxᵀΣ/β + I/s², mean Λ⁻¹Σxt/β; the mean-field optimum has that mean, and the diagonal of Λ as precision.
Posterior exact_posterior(double beta, double prior_scale, const TestBed::Regression& problem = kThree) {
  const double prior = 1.0 / (prior_scale * prior_scale);
  double a = prior, b = 0.0, c = prior, u = 0.0, v = 0.0;
  for (std::size_t client = 0; client < problem.x.size(); ++client) {
    for (std::size_t i = 0; i < problem.x[client].size(); ++i) {
      const auto& x = problem.x[client][i];
      const double t = problem.y[client][i][0];
      a += x[0] * x[0] / beta;
      b += x[0] * x[1] / beta;
      c += x[1] * x[1] / beta;
      u += x[0] * t / beta;
      v += x[1] * t / beta;
    }
  }
  const double det = a * c - b * b;
  return {{(c * u - b * v) / det, (a * v - b * u) / det}, {a, c}};
}

Settings exactly(double beta = 1.0) {
  auto settings = local(0.2, 300);
  settings["method.private"] = false;
  settings["method.beta"] = beta;
  settings["method.prior_scale"] = 2.0;
  settings["method.rho"] = -1.0;
  return settings;
}

TestBed federation(const Settings& settings) {
  return TestBed("virtual", kThree, settings, [] { return std::make_unique<Exact>(); });
}

void expect_exact(TestBed& bed, double beta = 1.0) {
  const Posterior exact = exact_posterior(beta, 2.0);
  for (std::size_t j = 0; j < 2; ++j) {
    EXPECT_NEAR(bed.theta()[j], exact.mean[j], 2e-4);
    EXPECT_NEAR(bed.state().at("precision")[j] / exact.precision[j], 1.0, 2e-4);
  }
}

TEST(Virtual, ReachesTheExactPosteriorInParallel) {
  TestBed bed = federation(exactly());
  bed.rounds(60);
  expect_exact(bed);
}

// Two clients without data among the three, and one that comes late: once all have come, nothing of the start is left.
TEST(Virtual, EmptyAndAbsentClientsLeaveNoFactorBehind) {
  TestBed::Regression five;
  for (const auto& x : {kThree.x[0], {}, kThree.x[1], kThree.x[2], {}}) five.x.push_back(x);
  for (const auto& y : {kThree.y[0], {}, kThree.y[1], kThree.y[2], {}}) five.y.push_back(y);
  for (const char* share : {"equal", "examples"}) {
    TestBed bed("virtual", five, with(exactly(), "method.prior_share", std::string(share)),
                [] { return std::make_unique<Exact>(); });
    for (std::size_t round = 1; round <= 10; ++round) bed.round(round, {0, 2});
    for (std::size_t round = 11; round <= 80; ++round) bed.round(round, {0, 2, 3});
    expect_exact(bed);
  }
}

TEST(Virtual, ReachesTheExactPosteriorOneClientAtATime) {
  TestBed bed = federation(exactly());
  for (std::size_t round = 1; round <= 60; ++round) bed.round(round, {round % 3});
  expect_exact(bed);
}

// The last client is first seen when the others' factors are long in the posterior.
TEST(Virtual, ReachesTheExactPosteriorWithSomeOfTheClients) {
  TestBed bed = federation(exactly());
  for (std::size_t round = 1; round <= 40; ++round) bed.round(round, {0, 1});
  for (std::size_t round = 41; round <= 140; ++round) bed.round(round, {round % 3, (round + 1) % 3});
  expect_exact(bed);
}

TEST(Virtual, ReachesTheExactPosteriorDamped) {
  TestBed bed = federation(with(exactly(), "method.rate", 0.1));
  bed.rounds(150);
  expect_exact(bed);
}

TEST(Virtual, SharesOfThePriorByExamplesGiveTheSame) {
  TestBed bed = federation(with(exactly(), "method.prior_share", std::string("examples")));
  bed.rounds(60);
  expect_exact(bed);
}

// β is the temperature of the likelihood.
TEST(Virtual, BetaIsAPowerOfTheLikelihood) {
  for (const double beta : {0.3, 3.0}) {
    auto settings = exactly(beta);
    settings["client.lr"] = 0.05;
    TestBed bed = federation(settings);
    bed.rounds(150);
    expect_exact(bed, beta);
  }
}

TEST(Virtual, WhereAClientStartsDoesNotMatterInTheEnd) {
  TestBed bed = federation(with(exactly(), "method.fedavg_init", false));
  bed.rounds(60);
  expect_exact(bed);
}

Settings by_ivon(double beta = 1.0) {
  auto settings = exactly(beta);
  settings["method.local"] = std::string("ivon");
  settings["method.ivon_beta2"] = 0.9;
  settings["method.ivon_curvature"] = 0.0;
  return settings;
}

TEST(Virtual, OneOddExampleDoesNotRunAwayWithIvonsPrecision) {
  const auto registry = native_models();
  const auto& linear = registry.at("linear");
  const auto model = make_variational(linear.make.at("native")(Options("model", linear.about.options),
                                                               {.input_shape = {1}, .outputs = 1, .loss = Loss::mse}),
                                      false);
  std::ranges::fill(model->rhos(), 0.0f);
  const std::vector<float> input{0.0f}, target{0.0f};
  model->backward({.size = 1, .inputs = input, .labels = {}, .targets = target});  // σ² as of here
  const std::size_t count = model->gaussians();
  const Flat prior_precision(count, 1e-6f), prior_shift(count, 0.0f);
  Ivon ivon(*model, {prior_precision, prior_shift}, 1e6, {.gradient = 0.9f, .curvature = 0.999f});
  Flat gradients(2 * count, 0.0f);
  std::fill(gradients.begin() + static_cast<std::ptrdiff_t>(count), gradients.end(), 1e3f);  // ξ/λ is 1e-6
  ivon.step(gradients, 0.001f);
  for (const float rho : model->rhos()) EXPECT_NEAR(rho, -0.5 * std::log(2.5), 1e-4);
}

// Two steps by hand, with a curvature that is measured as it is, so that only the mean moves:
// μ ← μ − lr·(g/(1 − β₁ᵗ) + (ξμ − χ)/λ)/s, g ← β₁g + (1 − β₁)ĝ. The first goes the whole way along its gradient.
TEST(Virtual, IvonCorrectsTheBiasOfItsFirstSteps) {
  ExactGaussian model(Layout({{.name = "fc1.weight", .shape = {1, 2}}}));
  const Flat xi{0.5f, 2.0f}, chi{0.25f, -1.0f};
  const std::vector<float> input{0.0f, 0.0f}, target{0.0f};
  model.backward({.size = 1, .inputs = input, .labels = {}, .targets = target});  // σ² = e⁰
  constexpr double kLambda = 10.0, kBeta = 0.9, kRate = 0.01;
  Ivon ivon(model, {xi, chi}, kLambda, {.gradient = static_cast<float>(kBeta), .curvature = 0.5f});
  const double gradients[] = {3.0, -1.0};
  double momentum = 0.0, mean[2] = {0.0, 0.0};
  for (int step = 1; step <= 2; ++step) {
    const double g = gradients[step - 1], s = 1.0 / kLambda;
    Flat gradient{static_cast<float>(g), static_cast<float>(g)};
    for (std::size_t j = 0; j < 2; ++j) gradient.push_back(static_cast<float>(s - double{xi[j]} / kLambda));  // by ρ
    ivon.step(gradient, static_cast<float>(kRate));
    momentum = kBeta * momentum + (1.0 - kBeta) * g;
    for (std::size_t j = 0; j < 2; ++j) {
      mean[j] -= kRate * (momentum / (1.0 - std::pow(kBeta, step)) + (xi[j] * mean[j] - chi[j]) / kLambda) / s;
      EXPECT_NEAR(model.means()[j], mean[j], 1e-5) << "step " << step;
      EXPECT_NEAR(model.rhos()[j], 0.0, 1e-6) << "step " << step;
    }
  }
}

// The natural gradient has the same fixed point.
// lr·g/h for a client of mean size, whatever that size: Σn/K clients' worth of data, β, and not ρ.
TEST(Virtual, IvonsFirstStepDoesNotDependOnHowMuchDataThereIs) {
  const auto first_step = [](std::size_t copies) {
    TestBed::Regression one{.x = {{}}, .y = {{}}};
    for (std::size_t i = 0; i < copies; ++i) {
      one.x[0].push_back({1, .5f});
      one.y[0].push_back({2});
    }
    Settings settings = local(0.001, 1);
    settings["method.private"] = false;
    settings["method.local"] = std::string("ivon");
    settings["method.beta"] = 1e-3;
    settings["method.prior_scale"] = 1e3;  // next to no prior
    TestBed bed("virtual", one, settings, [] { return std::make_unique<Exact>(); });
    bed.round(1);
    return double{bed.theta()[0]};
  };
  // The gradient at 0 is −2; the curvature moves by at most a thousandth of the gap within a step (β₂ = .999).
  EXPECT_NEAR(first_step(4) / (0.001 * 2 / 0.005), 1.0, 0.25);
  EXPECT_NEAR(first_step(4000) / first_step(4), 1.0, 1e-3);
}

TEST(Virtual, IvonReachesTheExactPosterior) {
  for (const double beta : {1.0, 0.3}) {
    TestBed bed = federation(by_ivon(beta));
    bed.rounds(80);
    expect_exact(bed, beta);
  }
}

// Σξ_i over the clients' factors, divided by the posterior's ξ; 1 when the posterior is their product.
double factors_over_posterior(TestBed& bed, std::size_t j) {
  double sum = 0.0;
  for (std::size_t client = 0; client < 3; ++client) sum += bed.store().load(client)->at("factor_precision")[j];
  return sum / bed.state().at("precision")[j];
}

TEST(Virtual, ThePosteriorStaysTheProductOfTheFactors) {
  TestBed bed = federation(exactly());
  for (std::size_t round = 1; round <= 7; ++round) bed.round(round, {round % 3, (round + 1) % 3});
  EXPECT_NEAR(factors_over_posterior(bed, 0), 1.0, 1e-5);
  EXPECT_NEAR(factors_over_posterior(bed, 1), 1.0, 1e-5);
}

// The paper's own damping, clients by γ = 1 − η and the server by η once more, loses the factors and settles elsewhere.
TEST(Virtual, ReferenceDampingMissesThePosterior) {
  auto settings = with(exactly(), "method.damping", std::string("reference"));
  settings["method.rate"] = 0.5;
  settings["method.rho"] = -2.0;
  TestBed bed = federation(settings);
  bed.rounds(100);
  EXPECT_GT(std::abs(factors_over_posterior(bed, 0) - 1.0), 0.1);
  EXPECT_GT(std::abs(bed.state().at("precision")[0] / exact_posterior(1.0, 2.0).precision[0] - 1.0), 0.1);
}

// Without width and without KL it is FedAvg by deltas, whoever takes part.
TEST(Virtual, WithoutWidthItIsFedAvg) {
  const TestBed::Quadratics problem{.h = {{2, .5f}, {.1f, 5}, {1, 1}}, .m = {{1, 1}, {-1, 3}, {0, 2}}};
  Settings settings = local(0.1, 4);
  TestBed avg("fedavg", problem, settings, true);
  settings["method.beta"] = 0.0;
  settings["method.rho"] = -20.0;
  TestBed virtual_("virtual", problem, settings, true);
  for (std::size_t round = 1; round <= 6; ++round) {
    const std::vector<std::size_t> cohort{round % 3, (round + 1) % 3};
    avg.round(round, cohort);
    virtual_.round(round, cohort);
    for (std::size_t j = 0; j < 2; ++j) EXPECT_NEAR(virtual_.theta()[j], avg.theta()[j], 1e-5);
  }
}

// Two clients that want opposite things: the shared weights cannot serve both, private ones can.
const TestBed::Regression kOpposite{.x = {{{1}, {-1}, {2}}, {{1}, {-1}, {2}}},
                                    .y = {{{1}, {-1}, {2}}, {{-1}, {1}, {-2}}}};

double last_loss(bool with_private) {
  auto settings = with(local(0.05, 20), "method.private", with_private);
  settings["client.max_steps"] = std::int64_t{1};  // so that the loss is that of what was loaded
  TestBed bed("virtual", kOpposite, settings);
  Update update;
  for (std::size_t round = 1; round <= 200; ++round) {
    update = bed.train(round, 0);
    bed.round(round);
  }
  return update.training.loss_sum / static_cast<double>(update.training.examples);
}

TEST(Virtual, PrivateWeightsServeWhoDiffersFromTheOthers) {
  EXPECT_LT(last_loss(true), 0.01);
  EXPECT_GT(last_loss(false), 1.5);
}

// With one client, the shared and the private weight are one regression; the private one is held by the prior alone.
TEST(Virtual, PrivateWeightsReachTheirExactPosterior) {
  const TestBed::Regression one{.x = {kThree.x[0]}, .y = {kThree.y[0]}};
  TestBed bed("virtual", one, with(exactly(), "method.private", true),
              [] { return std::make_unique<Exact>(Second::its_own); });
  bed.rounds(60);
  const Posterior exact = exact_posterior(1.0, 2.0, one);
  EXPECT_NEAR(bed.theta()[0], exact.mean[0], 2e-4);
  EXPECT_NEAR(bed.state().at("precision")[0] / exact.precision[0], 1.0, 2e-4);
  const Flat own = bed.store().load(0)->at("private");  // mean, then ρ
  EXPECT_NEAR(own[0], exact.mean[1], 2e-4);
  EXPECT_NEAR(std::exp(-2.0 * own[1]) / exact.precision[1], 1.0, 2e-4);
}

// N(μ, scale/ξ): the precision counts examples and prior already.
TEST(Virtual, DrawsFromItsPosterior) {
  TestBed bed = federation(exactly());
  std::ranges::copy(std::vector<float>{1.0f, -2.0f}, bed.theta().begin());
  std::ranges::copy(std::vector<float>{4.0f, 0.5f}, bed.state().at("precision").begin());
  constexpr std::size_t kDraws = 20000;
  double squares[2] = {};
  for (std::size_t s = 0; s < kDraws; ++s) {
    Stream stream(1, "posterior", 1, s);
    Flat theta(2);
    bed.method().posterior()->draw(bed.state(), {.examples = 50, .scale = 3.0, .prior_precision = 5.0}, stream, theta);
    for (std::size_t j = 0; j < 2; ++j) squares[j] += std::pow(double{theta[j]} - double{bed.theta()[j]}, 2);
  }
  const double variance[2] = {3.0 / 4.0, 3.0 / 0.5};
  for (std::size_t j = 0; j < 2; ++j) {
    EXPECT_NEAR(squares[j] / kDraws / variance[j], 1.0, 4 * std::sqrt(2.0 / kDraws));
  }
}

// ξ goes to the client as it is and comes back as exp(−2ρ): by itself that is no news.
TEST(Virtual, RoundingIsNotTakenForMovement) {
  TestBed bed = federation(with(exactly(), "client.lr", 1e-30));
  const Update update = bed.train(1, 0);
  for (const float moved : update["delta_precision"]) EXPECT_EQ(moved, 0.0f);
}

// Within the tolerance a precision counts as unmoved: the server's stays as it is, and no bytes tell of it.
TEST(Virtual, PrecisionsThatDoNotMoveAreNotSent) {
  const auto update = [](double tolerance) {
    TestBed bed =
        federation(with(with(exactly(), "client.epochs", std::int64_t{2}), "method.precision_tolerance", tolerance));
    return bed.train(1, 0);
  };
  const Update all = update(0.0), none = update(0.99);
  for (std::size_t j = 0; j < 2; ++j) {
    EXPECT_NE(all["delta_precision"][j], 0.0f);
    EXPECT_EQ(none["delta_precision"][j], 0.0f);
    EXPECT_NE(none["delta_shift"][j], 0.0f);
  }
}

TestBed pruned_network(double share) {
  auto settings = exactly();
  settings["client.lr"] = 0.05;
  settings["client.epochs"] = std::int64_t{5};
  settings["method.prune"] = share;
  return TestBed("virtual", kThree, settings, [] {
    const auto registry = native_models();
    Options options("model", registry.at("mlp").about.options);
    options.set("hidden", std::vector<std::int64_t>{6});
    return registry.at("mlp").make.at("native")(options, {.input_shape = {2}, .outputs = 1, .loss = Loss::mse});
  });
}

// Of every tensor but the output layer's, half of the deltas: they reach neither the server nor the client's factor.
TEST(Virtual, WhatIsPrunedIsNeitherSentNorKept) {
  const auto sent = [](double share) {
    const Update update = pruned_network(share).train(1, 0);
    return std::ranges::count_if(update["delta_shift"], [](float x) { return x != 0.0f; });
  };
  EXPECT_LT(sent(0.5), sent(0.0));
  TestBed bed = pruned_network(0.5);
  for (std::size_t round = 1; round <= 4; ++round) bed.round(round, {round % 3, (round + 1) % 3});
  const auto precision = bed.state().at("precision");
  for (std::size_t j = 0; j < precision.size(); ++j) {
    double factors = 0.0, shifts = 0.0;
    for (std::size_t client = 0; client < 3; ++client) {
      factors += bed.store().load(client)->at("factor_precision")[j];
      shifts += bed.store().load(client)->at("factor_shift")[j];
    }
    EXPECT_NEAR(factors / precision[j], 1.0, 1e-5) << j;
    EXPECT_NEAR(shifts, double{precision[j]} * bed.theta()[j], 1e-4) << j;
  }
}

TEST(Virtual, SendsTwoNumbersForEachWeight) {
  TestBed bed = federation(with(exactly(), "method.precision_tolerance", 0.0));
  EXPECT_EQ(bed.train(1, 0).wire_bytes(), framed(2, 1, 4 * sizeof(float)));
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Virtual, RefusesAnImproperPosteriorByTensor) {
  TestBed bed = federation(with(exactly(), "method.fedavg_init", false));
  bed.round(1);
  ClientRecord record = *bed.store().load(0);
  record.at("own")[3] = -1e4f;  // ρ of the second weight
  bed.store().stage(0, std::move(record));
  bed.store().commit(1);
  EXPECT_THROW(bed.train(2, 0), RefusedUpdate);
  EXPECT_EQ(refusal([&] { bed.train(2, 0); }),
            "improper posterior: fc1.weight has precision inf at 1; lower client.lr");
}

// Deltas that would leave the server without a posterior change nothing where they would, and are counted.
TEST(Virtual, KeepsAProperPosteriorUnderContradictoryDeltas) {
  TestBed bed = federation(with(exactly(), "method.rate", 1.0));
  Update update = bed.train(1, 0);
  update.channels()[0][1] = -100.0f;
  Sum sum(bed.schema());
  sum.add(update);
  const float before = bed.theta()[1], precision = bed.state().at("precision")[1];
  bed.serve(1, sum);
  EXPECT_EQ(bed.theta()[1], before);
  EXPECT_EQ(bed.state().at("precision")[1], precision);
  EXPECT_NE(bed.theta()[0], 0.0f);
}

// At rate 1 a cohort that is less sure than the server could take all of its precision away, or more.
TEST(Virtual, ACohortThatIsLessSureLeavesAProperPosteriorAndTheProductOfItsFactors) {
  TestBed bed = federation(with(with(exactly(), "method.rate", 1.0), "method.rho", -3.0));
  bed.round(1);
  const auto precision = bed.state().at("precision");
  for (std::size_t i = 0; i < precision.size(); ++i) {
    EXPECT_GT(precision[i], 0.0f);
    double product = 0.0;
    for (std::size_t client = 0; client < bed.clients(); ++client) {
      product += bed.store().load(client)->at("factor_precision")[i];
    }
    EXPECT_NEAR(product, precision[i], 1e-4 * precision[i]);
  }
}

TEST(Virtual, AMissingPrivatePartStartsAfreshAndIsCounted) {
  TestBed bed("virtual", kOpposite, local(0.05, 2));
  EXPECT_EQ(bed.train(1, 0).scalars()[1], 1.0);
  bed.round(1);
  EXPECT_EQ(bed.train(2, 0).scalars()[1], 0.0);
  ClientRecord record = *bed.store().load(0);
  record.erase("private");
  bed.store().stage(0, std::move(record));
  bed.store().commit(2);
  EXPECT_EQ(bed.train(3, 0).scalars()[1], 1.0);
}

TEST(Virtual, RefusesSettingsItCannotHonour) {
  const auto made = [](const Settings& settings) { return refusal([&] { TestBed("virtual", kOpposite, settings); }); };
  EXPECT_EQ(made({{"client.weight_decay", 0.1}}),
            "client.weight_decay = 0.1: it would pull ln σ towards 0 too; virtual has a prior, method.prior_scale");
  EXPECT_EQ(made({{"method.damping", std::string("reference")}, {"method.rate", 1.0}}),
            "method.rate = 1: with damping = \"reference\" clients keep and send Δ^(1 − rate), nothing; use less");
  EXPECT_EQ(made({{"server.step", std::string("adam")}}),
            "server.step = \"adam\": virtual multiplies posteriors, which is the step; use \"replace\"");
  EXPECT_EQ(made({{"server.lr", 0.5}}),
            "server.lr = 0.5: virtual would move its mean without its precision; use 1, and method.rate to damp");
  TestBed reference("virtual", kOpposite, with(local(0.05, 2), "method.damping", std::string("reference")));
  EXPECT_EQ(
      refusal([&] { reference.round(1, {0}); }),
      "method.rate = 0: 1/cohort is 1 for a cohort of one, and damping = \"reference\" then sends nothing; set it");
  EXPECT_EQ(made({{"client.optimizer", std::string("momentum")}, {"client.state", std::string("central")}}),
            "client.state = \"central\": clients train a model of their own, whose optimiser the server cannot carry; "
            "use \"worker\" or \"reset\"");
  const Settings ivon{{"method.local", std::string("ivon")}};
  EXPECT_EQ(made(with(ivon, "method.beta", 0.0)),
            "method.beta = 0: local = \"ivon\" weighs the data by examples/beta; use more");
  EXPECT_EQ(made(with(ivon, "client.optimizer", std::string("adam"))),
            "client.optimizer = \"adam\": method.local = \"ivon\" takes its own steps; leave it \"sgd\"");
  EXPECT_EQ(made(with(ivon, "client.clip_norm", 1.0)),
            "client.clip_norm = 1: method.local = \"ivon\" does not clip; set 0");
  const TestBed::Quadratics one{.h = {{1}}, .m = {{0}}};
  EXPECT_EQ(
      refusal([&] {
        TestBed("virtual", one, {{"method.private", true}});
      }),
      "method.private = true: this model has no form with a private part; set false, or use mlp, logistic, linear, "
      "char_lstm, bilstm or, with model.backend = \"torch\", cnn_mnist, cnn_cifar, lenet or cnn4");
}

}  // namespace
}  // namespace parley
