#include "parley/engine/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "parley/base/errors.h"
#include "parley/base/temp_folder.h"
#include "parley/engine/run.h"
#include "parley/engine/test_experiment.h"

namespace parley {
namespace {

TEST(ClassDistributionError, TheOrderOfInferredClassesMeansNothing) {
  const std::vector<std::vector<std::size_t>> counts{{8, 2, 0}, {0, 5, 5}};
  const std::vector<float> exact{0, .8f, .2f, .5f, 0, .5f};  // latent 0 is class 2, 1 is 0, 2 is 1
  EXPECT_NEAR(*class_distribution_error(exact, counts), 0.0, 1e-6);
}

TEST(ClassDistributionError, IsTheTotalVariationOfWhatWasInferred) {
  // The second client holds nothing, the third was never asked.
  const std::vector<std::vector<std::size_t>> counts{{3, 1}, {0, 0}, {1, 9}, {0, 4}};
  const std::vector<float> inferred{.5f, .5f, .9f, .1f, 0, 0, .25f, .75f};
  EXPECT_NEAR(*class_distribution_error(inferred, counts), (.25 + .25) / 2, 1e-6);
  EXPECT_FALSE(class_distribution_error(std::vector<float>(8, 0.0f), counts));
}

TEST(RunningKl, IsTheDivergenceOfGaussiansMeanOverChannels) {
  const Layout layout({{"w", {2}},
                       {"a.running_mean", {2}, Role::running_mean},
                       {"a.running_var", {2}, Role::running_var},
                       {"b.running_mean", {1}, Role::running_mean},
                       {"b.running_var", {1}, Role::running_var}});
  const std::vector<float> theirs{9, 9, 1, 2, 1, 4, 0, 1};
  EXPECT_EQ(running_kl(layout, theirs, theirs), 0.0);
  std::vector<float> ours = theirs;
  ours[0] = 7;   // weights play no part
  ours[3] = 4;   // (4 − 2)²/(2·4)
  ours[7] = .5;  // ½(½ − 1 + ln 2)
  EXPECT_NEAR(running_kl(layout, ours, theirs), (0.5 + 0.5 * (-0.5 + std::log(2.0))) / 3, 1e-4);
}

constexpr const char* kSmall = R"([data]
name = "synthetic"
[partition]
kind = "dirichlet"
clients = 6
alpha = 0.3
[model]
name = "mlp"
hidden = [8]
)";

TEST(Central, OneClientHoldsWhatTheOthersHeld) {
  const Experiment federated = experiment_of(kSmall, {"method.name=fedavg"});
  const Experiment central = experiment_of(kSmall, {"method.name=central"});
  EXPECT_EQ(federated.clients(), 6u);
  ASSERT_EQ(central.clients(), 1u);
  std::vector<std::uint32_t> all;
  for (const auto& rows : federated.federated.partition.clients) all.insert(all.end(), rows.begin(), rows.end());
  std::ranges::sort(all);
  EXPECT_TRUE(std::ranges::equal(central.federated.partition.clients[0], all));
}

TEST(Central, PermutedClientsCannotBePooled) {
  EXPECT_THROW(experiment_of(kSmall, {"method.name=central", "partition.kind=permuted"}), InputError);
}

double last_of(const RunSummary& summary, const char* key) {
  return summary.metrics.back().at(key).get<double>();
}

// A run compared with itself, and with one of other data.
TEST(Reference, BnKlIsMeasuredInEveryRound) {
  const TempFolder temp;
  const std::vector<std::string> normed{"model.name=normed", "run.rounds=2", "aggregate.running_var=mixture"};
  run_experiment(experiment_of(kSmall, normed), temp / "first", {.threads = 1});
  const auto kl = [&](std::vector<std::string> more) {
    more.insert(more.end(), normed.begin(), normed.end());
    more.push_back("evaluate.reference=" + (temp / "first" / "model.safetensors").string());
    return last_of(run_experiment(experiment_of(kSmall, more), temp / "second", {.threads = 1}), "bn_kl");
  };
  EXPECT_EQ(kl({}), 0.0);
  EXPECT_GT(kl({"data.rows=200"}), 1e-4);
}

TEST(ClassDistributionError, IsInFedecsMetrics) {
  const TempFolder temp;
  const auto summary = run_experiment(experiment_of(kSmall, {"model.name=normed", "method.name=fedec", "run.rounds=2"}),
                                      temp / "run", {.threads = 1});
  EXPECT_GE(last_of(summary, "class_distribution_error"), 0.0);
  EXPECT_LE(last_of(summary, "class_distribution_error"), 1.0);
  EXPECT_GE(last_of(summary, "effective_clients"), 1.0);
}

TEST(Reference, IsRefusedWithoutStatisticsToCompare) {
  try {
    experiment_of(kSmall, {"evaluate.reference=x.safetensors"});
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("no running statistics to compare (no batch norm)"), std::string::npos)
        << error.what();
  }
}

TEST(Aggregate, PeersHaveNoServerThatAggregates) {
  try {
    experiment_of(kSmall, {"method.name=gossip", "aggregate.norm=local"});
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("aggregate.norm"), std::string::npos);
  }
}

}  // namespace
}  // namespace parley
