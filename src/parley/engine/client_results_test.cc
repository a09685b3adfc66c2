#include "parley/engine/client_results.h"

#include <gtest/gtest.h>

#include <fstream>

#include "parley/base/errors.h"
#include "parley/data/test_folder.h"
#include "parley/engine/run.h"
#include "parley/engine/test_experiment.h"

namespace parley {
namespace {

constexpr const char* kSmall = R"(
[run]
rounds = 4
[data]
name = "synthetic"
rows = 600
features = 12
classes = 4
[partition]
kind = "dirichlet"
clients = 12
alpha = 0.3
holdout = 0.25
[model]
name = "mlp"
hidden = [16]
[client]
batch = 8
lr = 0.1
[server]
participation = 0.5
[evaluate]
clients = true
)";

constexpr const char* kSingle = R"(
[data]
name = "synthetic"
rows = 600
features = 12
classes = 4
[partition]
kind = "single_class"
clients = 8
[model]
name = "mlp"
[evaluate]
clients = true
)";

Json last_line(const RunSummary& summary) {
  return summary.metrics.back();
}

TEST(ClientResults, SurviveACheckpointBitForBit) {
  ClientResults results(3);
  results[1] = ClientResult{.evaluation = {.examples = 7,
                                           .loss_sum = 1.0 / 3.0,
                                           .correct = 5,
                                           .brier_sum = 0.1,
                                           .covered = 6,
                                           .set_sizes = 9,
                                           .class_total = {3, 4},
                                           .class_correct = {2, 3}},
                            .ood_auroc = 2.0 / 3.0};
  results[1]->evaluation.bins[4] = {.count = 2, .confidence = 0.7, .correct = 1};
  results[2] = ClientResult{.evaluation = {.examples = 2, .loss_sum = 0.3}, .ood_auroc = {}};
  results[2]->evaluation.targets = {
      {.absolute = 0.1, .squares = 1.0 / 7.0, .sum = 2.0, .sum_squares = 4.5, .unit = 3.0}};
  const ClientResults back = results_from_json(Json::parse(to_json(results).dump()));
  ASSERT_EQ(back.size(), 3u);
  ASSERT_EQ(back[2]->evaluation.targets.size(), 1u);
  EXPECT_EQ(back[2]->evaluation.rmse(), results[2]->evaluation.rmse());
  EXPECT_EQ(back[2]->evaluation.r2(), results[2]->evaluation.r2());
  EXPECT_FALSE(back[0]);
  EXPECT_EQ(to_json(back), to_json(results));
  EXPECT_EQ(back[1]->evaluation.loss_sum, 1.0 / 3.0);
}

TEST(ClientResults, EveryClientWithTestDataIsInTheTableAndTheMeansAreWeightedByTestSize) {
  const TempFolder temp;
  const auto summary = run_experiment(experiment_of(kSmall, {}), temp / "run", {.threads = 2});
  const Json table = Json::parse(read_file(temp / "run" / "clients.json"));
  const Json line = last_line(summary);
  double s = 0, mt = 0, examples = 0;
  for (const auto& row : table) {
    const double n = row.at("test_examples");
    s += n * row.at("s_accuracy").get<double>();
    mt += n * row.at("mt_accuracy").get<double>();
    examples += n;
  }
  EXPECT_NEAR(line.at("s_accuracy").get<double>(), s / examples, 1e-12);
  EXPECT_NEAR(line.at("mt_accuracy").get<double>(), mt / examples, 1e-12);
  EXPECT_NEAR(examples, 150, 12);  // a quarter of the 600 rows
  EXPECT_NE(mt, s);
}

TEST(ClientResults, BeforeItsFirstTrainingAClientHasTheSharedModel) {
  const TempFolder temp;
  const auto one = experiment_of(kSmall, {"run.rounds=1", "server.participation=0.25"});
  run_experiment(one, temp / "run", {});
  std::size_t differ = 0;
  for (const auto& row : Json::parse(read_file(temp / "run" / "clients.json"))) {
    differ += row.at("s_loss") != row.at("mt_loss");
  }
  EXPECT_EQ(differ, 3u);  // a quarter of the twelve took part
}

// Its last step leaves the numbers: training saw nothing of it, and testing it must not end the run.
TEST(ClientResults, AClientThatDivergedAtItsLastStepIsRefusedAndTheRoundGoesOn) {
  Experiment one = experiment_of(
      kSmall, {"run.rounds=1", "server.participation=1", "client.batch=0", "model.hidden=[]", "client.lr=100"});
  set_first_feature(one, 1, 3e38f);
  const TempFolder temp;
  const auto summary = run_experiment(one, temp / "run", {.threads = 2});
  ASSERT_EQ(summary.metrics.back().at("refused").size(), 1u);
  EXPECT_TRUE(summary.metrics.back()["refused"][0].get<std::string>().starts_with("client 1: "))
      << summary.metrics.back();
}

TEST(ClientResults, AreTheSameForAnyThreadsAndAfterAResume) {
  const TempFolder temp;
  run_experiment(experiment_of(kSmall, {}), temp / "one", {.threads = 1});
  run_experiment(experiment_of(kSmall, {}), temp / "three", {.threads = 3});
  run_experiment(experiment_of(kSmall, {"run.rounds=2"}), temp / "grown", {.threads = 2});
  run_experiment(experiment_of(kSmall, {}), temp / "grown", {.threads = 2, .resume = true});
  const std::string expected = read_file(temp / "one" / "clients.json");
  EXPECT_EQ(read_file(temp / "three" / "clients.json"), expected);
  EXPECT_EQ(read_file(temp / "grown" / "clients.json"), expected);
}

TEST(ClientResults, FinetuningIsMeasuredAfterTheLastRoundOnly) {
  const TempFolder temp;
  const auto summary = run_experiment(experiment_of(kSmall, {"evaluate.finetune=3"}), temp / "run", {.threads = 2});
  EXPECT_FALSE(summary.metrics.front().contains("finetune_accuracy"));
  const Json line = last_line(summary);
  EXPECT_GT(line.at("finetune_accuracy").get<double>(), line.at("s_accuracy").get<double>());
  EXPECT_GE(line.at("finetune_worse").get<double>(), 0.0);
  EXPECT_LT(line.at("finetune_worse").get<double>(), 1.0);
}

TEST(ClientResults, TheTestSetIsSharedOutLikeTheTrainingSetWhenNothingIsHeldOut) {
  const Experiment dealt = experiment_of(kSingle, {});
  for (std::size_t client = 0; client < dealt.clients(); ++client) {
    const View own = dealt.federated.own_test_view(client);
    ASSERT_GT(own.size(), 0u);
    for (const auto row : own.rows) EXPECT_EQ(own.data->labels[row], static_cast<std::int32_t>(client % 4));
  }
}

TEST(ClientResults, FinetuningWithoutClientsIsRefusedWithARemedy) {
  expect_refusal(
      [] {
        settings_of(kSmall, {"evaluate.clients=false", "evaluate.finetune=2"});
      },
      {"evaluate.finetune", "evaluate.clients = true"});
}

TEST(ClientResults, PeersAreRefused) {
  expect_refusal([] { experiment_of(kSmall, {"method.name=mm"}); }, {"evaluate.clients", "mm", "set false"});
}

TEST(ClientResults, WhoTrainsNoModelHasNoneOfItsOwn) {
  for (const char* method : {"fne", "openes", "fedsgd"}) {
    const TempFolder temp;
    const auto summary =
        run_experiment(experiment_of(kSmall, {std::string("method.name=") + method}), temp / "run", {});
    EXPECT_TRUE(last_line(summary).contains("s_accuracy")) << method;
    EXPECT_FALSE(last_line(summary).contains("mt_accuracy")) << method;
  }
}

TEST(ClientResults, WithoutFederationAClientThatNeverTrainedHasTheInitialModel) {
  const TempFolder temp;
  const auto one = experiment_of(kSmall, {"method.name=local", "run.rounds=1", "server.participation=0.25"});
  run_experiment(one, temp / "run", {});
  const Json table = Json::parse(read_file(temp / "run" / "clients.json"));
  ASSERT_FALSE(table.empty());
  for (const auto& row : table) EXPECT_NE(row.at("s_loss"), row.at("mt_loss")) << row;
}

TEST(ClientResults, WhatClientsKeptIsMissedWhereNoCheckpointsWereWritten) {
  const TempFolder temp;
  const std::vector<std::string> ditto{"method.name=ditto", "run.checkpoint_every=0"},
      fedavg{"method.name=fedavg", "run.checkpoint_every=0"};
  run_experiment(experiment_of(kSmall, fedavg), temp / "fedavg", {});
  EXPECT_NO_THROW(evaluate_run(experiment_of(kSmall, fedavg), temp / "fedavg", 1));
  run_experiment(experiment_of(kSmall, ditto), temp / "ditto", {});
  try {
    evaluate_run(experiment_of(kSmall, ditto), temp / "ditto", 1);
    FAIL() << "expected InputError";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("was run without checkpoints"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace parley
