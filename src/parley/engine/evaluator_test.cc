#include "parley/engine/evaluator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "parley/base/errors.h"
#include "parley/base/temp_folder.h"
#include "parley/engine/federation.h"
#include "parley/engine/run.h"
#include "parley/engine/test_experiment.h"

namespace parley {
namespace {

constexpr const char* kSmall = R"(
[run]
rounds = 4
[data]
name = "synthetic"
rows = 300
test_rows = 1200
classes = 4
separation = 2
[partition]
kind = "dirichlet"
clients = 5
alpha = 0.5
[model]
name = "logistic"
[client]
batch = 8
[method]
name = "fola"
[evaluate]
posterior_samples = 5
prior_precision = 30
)";

Experiment experiment(const std::vector<std::string>& assignments = {}) {
  return experiment_of(kSmall, assignments);
}

std::string refusal(const std::vector<std::string>& assignments,
                    Experiment (*make)(const std::vector<std::string>&) = experiment) {
  try {
    make(assignments);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

// The numbers of this room's own, round by round.
std::vector<std::map<std::string, double>> uncertainty_of(const RunSummary& summary) {
  std::vector<std::map<std::string, double>> rounds;
  for (const auto& line : summary.metrics) {
    auto& round = rounds.emplace_back();
    for (const auto& [key, value] : line.items()) {
      if (key.starts_with("posterior_") || key.starts_with("ood_")) round[key] = value.get<double>();
    }
  }
  return rounds;
}

// A federation after two rounds.
struct Trained {
  explicit Trained(Experiment untrained) : experiment(std::move(untrained)), federation(experiment, store, 1) {
    for (std::size_t round = 1; round <= 2; ++round) federation.round(round);
  }
  // Variance of weight i under the posterior.
  double variance(std::size_t i, const Posterior::Draw& how) const {
    const double precision = static_cast<double>(federation.state().at("precision")[i]);
    return how.scale / (how.examples * precision + how.prior_precision);
  }

  MeanPrediction predict(const Dataset& data) {
    return federation.evaluator().predict({federation.state().at("theta")}, data);
  }
  std::vector<MeanPrediction> predict(const std::vector<const Dataset*>& sets, std::size_t round, std::size_t samples,
                                      const Posterior::Draw& how) {
    return federation.evaluator().predict(federation.state(), sets, round, samples, how);
  }

  Experiment experiment;
  ClientStore store{ClientStore::Keep::memory, {}, real_files()};
  Federation federation;
};

// Variance of output `out` of a dense layer for these inputs.
double output_variance(const Trained& trained, std::size_t out, std::span<const float> inputs,
                       const Posterior::Draw& how) {
  const Layout& layout = *trained.experiment.layout;
  double variance = 0.0;
  for (const auto& entry : layout.entries()) {
    if (entry.role == Role::bias) variance += trained.variance(entry.offset + out, how);
    if (entry.role != Role::weight) continue;
    for (std::size_t j = 0; j < inputs.size(); ++j) {
      const double x = static_cast<double>(inputs[j]);
      variance += x * x * trained.variance(entry.offset + out * inputs.size() + j, how);
    }
  }
  return variance;
}

// ∫ sigmoid(z) N(z; mean, variance) dz by the trapezoidal rule.
double mean_sigmoid(double mean, double variance) {
  constexpr int kSteps = 400;
  double sum = 0.0;
  for (int i = -kSteps; i <= kSteps; ++i) {
    const double u = 8.0 * i / kSteps;
    sum += std::exp(-0.5 * u * u) / (1.0 + std::exp(-(mean + std::sqrt(variance) * u)));
  }
  return sum * 8.0 / kSteps / std::sqrt(2.0 * std::numbers::pi);
}

TEST(Uncertainty, OfLogisticRegressionAgreesWithQuadrature) {
  Trained trained(experiment({"data.classes=2", "data.features=3", "data.test_rows=8"}));
  const Posterior::Draw how{.examples = 30, .scale = 2.0, .prior_precision = 0.2};
  constexpr std::size_t kSamples = 4000;
  const Dataset& test = *trained.experiment.federated.data.test;
  const auto point = trained.predict(test), mean = trained.predict({&test}, 2, kSamples, how)[0];
  const auto& inputs = std::get<Values<float>>(test.values);
  double moved = 0.0;
  for (std::size_t i = 0; i < test.size(); ++i) {
    const auto x = std::span(inputs).subspan(3 * i, 3);
    const double gap = static_cast<double>(point.outputs()[2 * i + 1]) - static_cast<double>(point.outputs()[2 * i]);
    const double variance = output_variance(trained, 0, x, how) + output_variance(trained, 1, x, how);
    const double p = std::exp(static_cast<double>(mean.outputs()[2 * i + 1]));
    EXPECT_NEAR(p, mean_sigmoid(gap, variance), 4 * 0.5 / std::sqrt(kSamples));
    moved = std::max(moved, std::abs(p - mean_sigmoid(gap, 0.0)));
  }
  EXPECT_GT(moved, 0.1);  // sampling changes the answer by more than the test's tolerance
}

// y = 2a − b and noise, 48 rows for training and 12 for testing.
Experiment regression(const std::vector<std::string>& assignments = {}) {
  const TempFolder temp;
  Stream noise(1, "rows");
  std::string rows = "a,b,y\n";
  for (int i = 0; i < 60; ++i) {
    const double a = noise.normal(), b = noise.normal();
    rows += fmt::format("{},{},{}\n", a, b, 2 * a - b + 0.1 * noise.normal());
  }
  real_files().replace(temp / "rows.csv", rows);
  Config config = Config::parse("[data]\nname = \"csv\"\ntargets = [\"y\"]\n[method]\nname = \"fola\"\n");
  for (const char* assignment : {"model.name=linear", "partition.kind=iid", "data.normalize=none"})
    config.set(assignment);
  config.set("data.path=" + (temp / "rows.csv").string());
  for (const auto& assignment : assignments) config.set(assignment);
  DataCache cache;
  return build(resolve(config, catalogue()), catalogue(), cache);
}

TEST(Uncertainty, OfLinearRegressionHasTheMeanOfThePointAndTheVarianceOfTheInputs) {
  Trained trained(regression());
  const Posterior::Draw how{.examples = 48, .scale = 1.0, .prior_precision = 4.0};
  const Dataset& test = *trained.experiment.federated.data.test;
  const auto point = trained.predict(test);
  const auto& inputs = std::get<Values<float>>(test.values);
  constexpr std::size_t kDraws = 3000;
  std::vector<double> sum(test.size()), squares(test.size());
  for (std::size_t round = 1; round <= kDraws; ++round) {
    const auto drawn = trained.predict({&test}, round, 1, how)[0];
    for (std::size_t i = 0; i < test.size(); ++i) {
      const double distance = static_cast<double>(drawn.outputs()[i]) - static_cast<double>(point.outputs()[i]);
      sum[i] += distance;
      squares[i] += distance * distance;
    }
  }
  for (std::size_t i = 0; i < test.size(); ++i) {
    const double variance = output_variance(trained, 0, std::span(inputs).subspan(2 * i, 2), how);
    EXPECT_NEAR(sum[i] / kDraws, 0.0, 4 * std::sqrt(variance / kDraws));
    EXPECT_NEAR(squares[i] / kDraws / variance, 1.0, 4 * std::sqrt(2.0 / kDraws));
  }
}

TEST(Uncertainty, OfANarrowPosteriorIsThePointEstimates) {
  for (const char* scale : {"0", "1e-16"}) {
    const TempFolder temp;
    const auto summary = run_experiment(
        experiment({std::string("evaluate.posterior_scale=") + scale, "evaluate.ood=synthetic"}), temp / "run", {});
    for (const Json& line : summary.metrics) {
      for (const char* metric : {"loss", "accuracy", "ece", "brier", "coverage", "set_size"}) {
        EXPECT_NEAR(line[fmt::format("posterior_{}", metric)].get<double>(),
                    line[fmt::format("test_{}", metric)].get<double>(), 1e-6)
            << metric;
      }
      // Of the 600,000 pairs a few differ by rounding alone, and may change places.
      EXPECT_NEAR(line["posterior_ood_auroc"].get<double>(), line["ood_auroc"].get<double>(), 1e-5);
    }
  }
}

TEST(Uncertainty, IsTheSameForAnyNumberOfThreadsAndAfterAResume) {
  const TempFolder temp;
  const std::vector<std::string> with_ood{"evaluate.ood=synthetic"};
  const auto one = run_experiment(experiment(with_ood), temp / "one", {.threads = 1});
  const auto three = run_experiment(experiment(with_ood), temp / "three", {.threads = 3});
  run_experiment(experiment({with_ood[0], "run.rounds=2"}), temp / "cut", {.threads = 2});
  const auto resumed = run_experiment(experiment(with_ood), temp / "cut", {.threads = 2, .resume = true});
  EXPECT_EQ(uncertainty_of(one)[3].size(), 8u);
  EXPECT_EQ(uncertainty_of(one), uncertainty_of(three));
  EXPECT_EQ(uncertainty_of(one), uncertainty_of(resumed));
}

TEST(Uncertainty, IsMeasuredOnlyWhereAskedFor) {
  const auto keys = [](const std::vector<std::string>& assignments) {
    Trained trained(experiment(assignments));
    std::string names;
    for (const auto& [key, value] : trained.federation.measure(2, false)) names += key + " ";
    return names;
  };
  EXPECT_EQ(keys({"evaluate.posterior_samples=0"}), "");
  EXPECT_EQ(keys({}),
            "posterior_accuracy posterior_brier posterior_coverage posterior_ece posterior_loss posterior_set_size ");
  EXPECT_EQ(keys({"evaluate.posterior_samples=0", "method.name=fedavg", "evaluate.ood=synthetic"}), "ood_auroc ");
}

TEST(Uncertainty, DrawsMoveNothingElse) {
  const TempFolder temp;
  run_experiment(experiment(), temp / "with", {});
  run_experiment(experiment({"evaluate.posterior_samples=0"}), temp / "without", {});
  EXPECT_EQ(read_file(temp / "with" / "model.safetensors"), read_file(temp / "without" / "model.safetensors"));
}

TEST(Uncertainty, NeedsAMethodWithAPosterior) {
  const std::string remedy = "no posterior to draw networks from; methods that have one by default: fola";
  EXPECT_NE(
      refusal({"method.name=fedavg"}).find("evaluate.posterior_samples = 5: with these settings fedavg has " + remedy),
      std::string::npos)
      << refusal({"method.name=fedavg"});
  EXPECT_NE(refusal({"method.aggregation=mixture"}).find(remedy), std::string::npos);
  EXPECT_NE(refusal({"evaluate.prior_precision=0"}).find("evaluate.prior_precision"), std::string::npos);
  EXPECT_NE(refusal({"evaluate.posterior_scale=-1"}).find("evaluate.posterior_scale"), std::string::npos);
}

double posterior_loss(const std::vector<std::string>& assignments) {
  Trained trained(experiment(assignments));
  return trained.federation.measure(2, false).at("posterior_loss");
}

// Linear in its weights, and all of them in one layer.
TEST(Uncertainty, OfLogisticRegressionIsTheSameInEveryForm) {
  const double drawn = posterior_loss({});
  // Outputs of about 1 are rounded at 1e-7, and that is divided by 0.01.
  EXPECT_NEAR(posterior_loss({"evaluate.posterior=linearised"}), drawn, 1e-4);
  EXPECT_EQ(posterior_loss({"evaluate.posterior=last_layer"}), drawn);
}

TEST(Uncertainty, OfANetworkIsLinearisedAboutTheMeanOrLeftToItsLastLayer) {
  const std::vector<std::string> mlp{"model.name=mlp", "model.hidden=[6]"};
  const auto loss = [&](const char* kind, const char* scale) {
    std::vector<std::string> all(mlp);
    all.push_back(std::string("evaluate.posterior=") + kind);
    all.push_back(std::string("evaluate.posterior_scale=") + scale);
    return posterior_loss(all);
  };
  const double wide = loss("samples", "1");
  EXPECT_GT(std::abs(loss("linearised", "1") - wide), 1e-3);
  EXPECT_GT(std::abs(loss("last_layer", "1") - wide), 1e-3);
  const double point = loss("samples", "0");
  EXPECT_NEAR(loss("linearised", "0"), point, 1e-4);
  EXPECT_NEAR(loss("last_layer", "0"), point, 1e-6);
  // Draws a hundredth as far out: what is not linear in them is a ten thousandth.
  EXPECT_NEAR(loss("linearised", "1e-4"), loss("samples", "1e-4"), 0.05 * std::abs(wide - point));
}

TEST(Uncertainty, OfALastLayerNeedsALayer) {
  EXPECT_NE(refusal({"evaluate.posterior=lastlayer"}).find("evaluate.posterior"), std::string::npos);
  const auto refused =
      refusal({"model.name=quadratic", "evaluate.posterior=last_layer", "evaluate.posterior_samples=2"}, regression);
  EXPECT_NE(refused.find("model 'quadratic' shows no dense or convolutional layer"), std::string::npos) << refused;
}

TEST(Uncertainty, AtTheTemperatureOfTheServersExamples) {
  Trained trained(experiment({"evaluate.posterior_samples=0", "evaluate.temperature=true", "server.examples=100",
                              "client.lr=2", "client.epochs=5", "evaluate.ood=synthetic"}));
  const auto metrics = trained.federation.measure(2, false);
  const auto model = trained.federation.evaluate(*trained.experiment.federated.data.test);
  EXPECT_GT(metrics.at("temperature"), 1.0);  // long training on few rows is too sure of itself
  EXPECT_LT(metrics.at("tempered_loss"), model.loss());
  EXPECT_EQ(metrics.at("tempered_accuracy"), model.accuracy());
  EXPECT_TRUE(metrics.contains("tempered_ood_auroc"));
}

TEST(Uncertainty, ATemperatureNeedsExamplesOfTheServersAndClasses) {
  const auto refused = refusal({"evaluate.temperature=true"});
  EXPECT_NE(refused.find("set server.examples, for example to 1000"), std::string::npos) << refused;
  const auto numbers = refusal({"evaluate.temperature=true", "server.examples=5"}, regression);
  EXPECT_NE(numbers.find("gives no class probabilities"), std::string::npos) << numbers;
}

TEST(Together, TheSameModelTwiceIsTheModel) {
  const TempFolder temp;
  const Experiment one = experiment({"evaluate.ood=synthetic"});
  const auto summary = run_experiment(one, temp / "one", {});
  const auto metrics = evaluate_together({{&one, temp / "one"}, {&one, temp / "one"}}, 2);
  EXPECT_NEAR(metrics.at("ensemble_loss"), summary.metrics.back()["test_loss"].get<double>(), 1e-6);
  EXPECT_EQ(metrics.at("ensemble_accuracy"), summary.metrics.back()["test_accuracy"].get<double>());
  EXPECT_NEAR(metrics.at("ensemble_ood_auroc"), summary.metrics.back()["ood_auroc"].get<double>(), 1e-6);
}

// −ln of a mean is at most the mean of −ln.
TEST(Together, SeveralAreNoWorseThanTheirMeanLoss) {
  const TempFolder temp;
  std::vector<Experiment> all;
  double mean = 0.0;
  for (const char* lr : {"client.lr=0.01", "client.lr=0.1", "client.lr=1"}) {
    all.push_back(experiment({"evaluate.posterior_samples=0", lr}));
    mean += run_experiment(all.back(), temp / lr, {}).metrics.back()["test_loss"].get<double>() / 3.0;
  }
  const auto metrics = evaluate_together(
      {{&all[0], temp / "client.lr=0.01"}, {&all[1], temp / "client.lr=0.1"}, {&all[2], temp / "client.lr=1"}}, 1);
  EXPECT_LT(metrics.at("ensemble_loss"), mean);
  EXPECT_FALSE(metrics.contains("ensemble_ood_auroc"));
}

TEST(Together, RunsOfOtherTestDataAreRefused) {
  const TempFolder temp;
  const Experiment one = experiment(), other = experiment({"data.test_rows=900"});
  run_experiment(one, temp / "one", {});
  run_experiment(other, temp / "other", {});
  try {
    evaluate_together({{&one, temp / "one"}, {&other, temp / "other"}}, 1);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("tested on other examples than"), std::string::npos) << error.what();
  }
}

TEST(Together, RunsOfOtherOodAreRefused) {
  const TempFolder temp;
  const Experiment with = experiment({"evaluate.ood=synthetic"}), without = experiment();
  run_experiment(with, temp / "with", {});
  run_experiment(without, temp / "without", {});
  const FinishedRun one{&with, temp / "with"}, other{&without, temp / "without"};
  for (const auto& runs : {std::vector{one, other}, std::vector{other, one}}) {
    try {
      evaluate_together(runs, 1);
      FAIL();
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("its evaluate.ood is not that of"), std::string::npos) << error.what();
    }
  }
}

TEST(Uncertainty, OodIsANamedDataSetOfTheSameShape) {
  EXPECT_NE(refusal({"evaluate.ood=sinthetic"}).find("did you mean 'synthetic'?"), std::string::npos);
  EXPECT_NE(refusal({"evaluate.ood=csv"}).find("evaluate.ood"), std::string::npos) << refusal({"evaluate.ood=csv"});
  EXPECT_NE(refusal({"evaluate.ood=synthetic", "data.features=12"})
                .find("evaluate.ood = \"synthetic\": its examples have the shape [20], those of 'synthetic' [12]"),
            std::string::npos)
      << refusal({"evaluate.ood=synthetic", "data.features=12"});
  EXPECT_NE(refusal({"evaluate.ood=synthetic"}, regression).find("data set 'csv' has no classes"), std::string::npos);
}

TEST(Uncertainty, OfRegressionHasALossAndErrors) {
  Trained trained(regression({"evaluate.posterior_samples=3"}));
  const auto metrics = trained.federation.measure(2, false);
  ASSERT_EQ(metrics.size(), 4u);
  EXPECT_GT(metrics.at("posterior_loss"), 0.0);
  EXPECT_GE(metrics.at("posterior_rmse"), metrics.at("posterior_mae"));
  EXPECT_LT(metrics.at("posterior_r2"), 1.0);
}

TEST(Uncertainty, OodIsSeenThroughTheTrainingDatasTransform) {
  const Experiment one = experiment({"evaluate.ood=synthetic", "data.normalize=standard", "data.noise=3"});
  EXPECT_EQ(one.ood->transform.scale, one.federated.data.train->transform.scale);
  EXPECT_EQ(one.ood->transform.shift, one.federated.data.train->transform.shift);
}

}  // namespace
}  // namespace parley
