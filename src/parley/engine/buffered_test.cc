// Rounds that do not wait for all: with nothing to wait for they are ordinary ones, and otherwise what is late counts
// for what it is.
#include "parley/engine/buffered.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "parley/base/errors.h"
#include "parley/base/temp_folder.h"
#include "parley/engine/run.h"
#include "parley/engine/staleness.h"
#include "parley/engine/test_experiment.h"

namespace parley {
namespace {

const std::string kUneven = std::string(kTwelveClients) + "[network]\nspeed_spread = 1.0\n";

const Texts kBuffered{"server.rounds=buffered"};

struct Result {
  std::string model;
  std::vector<Json> metrics;
};

Result run(const Texts& assignments, std::size_t threads = 1) {
  const TempFolder temp;
  auto summary = run_experiment(experiment_of(kUneven.c_str(), assignments), temp / "run", {.threads = threads});
  return {read_file(temp / "run/model.safetensors"), std::move(summary.metrics)};
}

class EveryAverage : public testing::TestWithParam<Texts> {};

TEST_P(EveryAverage, ABufferAsLargeAsTheCohortGivesTheBytesOfOrdinaryRounds) {
  const Result plain = run(GetParam()), buffered = run(GetParam() + kBuffered);
  EXPECT_TRUE(plain.model == buffered.model);
  ASSERT_EQ(buffered.metrics.size(), plain.metrics.size());
  const Json &before = plain.metrics.back(), &after = buffered.metrics.back();
  EXPECT_EQ(after["max_staleness"], 0.0);
  for (const char* key : {"train_loss", "clients", "steps", "bytes_up", "bytes_down", "transmissions", "test_loss"}) {
    EXPECT_EQ(before[key], after[key]) << key;
  }
  // The clock is read as a difference there.
  EXPECT_NEAR(before["simulated_seconds"].get<double>(), after["simulated_seconds"].get<double>(), 1e-9);
}

TEST_P(EveryAverage, ASmallerOneNeedsLessTimeAndLetsAnswersBeLate) {
  const Texts small = GetParam() + kBuffered + Texts{"server.buffer=3", "run.rounds=12"};
  const Result plain = run(GetParam()), buffered = run(small);
  double oldest = 0.0;
  for (const auto& line : buffered.metrics) {
    EXPECT_EQ(line["clients"], 3);
    EXPECT_LT(line["simulated_seconds"].get<double>(), plain.metrics[0]["simulated_seconds"].get<double>());
    oldest = std::max(oldest, line["max_staleness"].get<double>());
  }
  EXPECT_GE(oldest, 2.0);
  EXPECT_TRUE(buffered.model == run(small, 3).model);
}

INSTANTIATE_TEST_SUITE_P(Buffered, EveryAverage,
                         testing::Values(Texts{}, Texts{"server.participation=0.5"}, Texts{"method.name=scaffold"},
                                         Texts{"method.name=fedprox", "server.step=adam"},
                                         Texts{"stages.use=[\"quantise\"]", "client.optimizer=adam",
                                               "client.state=central"}),
                         [](const auto& test) { return "Case" + std::to_string(test.index); });

class StopInRound final : public Progress {
 public:
  void started(std::size_t round, std::size_t) override { round_ = round; }
  void client_done(std::size_t, std::size_t) override {
    if (round_ == 6) throw std::runtime_error("killed");
  }

 private:
  std::atomic<std::size_t> round_ = 0;
};

TEST(Buffered, KilledAndResumedKnowsWhoWasAtWorkOnWhat) {
  for (const char* keep : {"memory", "disk"}) {
    for (const char* method : {"fedavg", "scaffold"}) {
      const TempFolder temp;
      const Experiment one = experiment_of(
          kUneven.c_str(), kBuffered + Texts{"server.buffer=4", "run.rounds=9", std::string("store.clients=") + keep,
                                             std::string("method.name=") + method});
      const auto straight = run_experiment(one, temp / "straight", {});
      StopInRound stop;
      EXPECT_THROW(run_experiment(one, temp / "cut", {.save_every_round = true, .progress = &stop}),
                   std::runtime_error);
      const auto resumed = run_experiment(one, temp / "cut", {.resume = true});
      EXPECT_EQ(resumed.resumed_from, 5u);
      EXPECT_TRUE(read_file(temp / "straight/model.safetensors") == read_file(temp / "cut/model.safetensors"))
          << keep << " " << method;
      // Times and ages too.
      EXPECT_EQ(straight.metrics.back()["simulated_seconds"], resumed.metrics.back()["simulated_seconds"]);
      EXPECT_EQ(straight.metrics.back()["staleness"], resumed.metrics.back()["staleness"]);
      EXPECT_EQ(evaluate_run(one, temp / "cut", 1)["test_loss"], straight.metrics.back()["test_loss"]);
    }
  }
}

TEST(Buffered, Learns) {
  const Result result = run(kBuffered + Texts{"server.buffer=4", "run.rounds=40", "client.epochs=2"});
  EXPECT_GT(result.metrics.back()["test_accuracy"].get<double>(), 0.8);
}

TEST(Buffered, ADivergedClientIsRefusedAndTheBufferGoesOn) {
  const TempFolder temp;
  Experiment one = experiment_of(kUneven.c_str(), kBuffered + Texts{"partition.alpha=100", "partition.clients=4",
                                                                    "model.hidden=[16]", "client.lr=0.1"});
  set_first_feature(one, 3, 1e38f);
  const auto summary = run_experiment(one, temp / "run", {});
  EXPECT_EQ(summary.metrics[0]["clients"], 3);
  EXPECT_NE(summary.metrics[0]["refused"].dump().find("client 3: "), std::string::npos);
}

TEST(Buffered, RefusesWhatCannotBeLate) {
  const auto refusal = [](const Texts& assignments) -> std::string {
    try {
      experiment_of(kUneven.c_str(), assignments);
    } catch (const InputError& error) {
      return error.what();
    }
    return "not refused";
  };
  const auto expect = [&](const Texts& more, const std::string& reason) {
    const std::string said = refusal(kBuffered + more);
    EXPECT_NE(said.find(reason), std::string::npos) << said;
  };
  expect({"method.name=fola"}, "'precision' is measured, and no difference");
  expect({"method.name=fedma"}, "'theta' is not averaged");
  expect({"method.name=fedcurv"}, "'fisher' is measured");
  expect({"method.name=fne"}, "fne chooses its own cohorts");
  expect({"method.name=gossip"}, "gossip has no server");
  EXPECT_NE(refusal({"server.buffer=3"}).find("only with rounds = \"buffered\""), std::string::npos);
}

TEST(Staleness, ALateAnswerBringsAPartOfItsChange) {
  const auto layout = std::make_shared<const Layout>(std::vector<LayoutEntry>{{.name = "w", .shape = {2}}});
  State state;
  state.add("theta", layout, true, {1.0f, 2.0f});
  const Broadcast then(state, 1);
  std::ranges::copy(std::vector{10.0f, 20.0f}, state.at("theta").begin());
  const Broadcast now(state, 4);
  Update update(share(
      {.channels = {{.name = "theta", .layout = layout, .relative_to = "theta"}, {.name = "delta", .count = 1}}}));
  update["theta"] = {3.0f, -2.0f};
  update["delta"] = {8.0f};
  EXPECT_EQ(discount(3, 0.5), 0.5);
  EXPECT_EQ(discount(0, 0.5), 1.0);
  bring_forward(update, then, now, discount(3, 0.5));
  EXPECT_EQ(update["theta"], (Flat{11.0f, 18.0f}));
  EXPECT_EQ(update["delta"], (Flat{4.0f}));
}

// A variance that fell since could otherwise become negative.
TEST(Staleness, RunningStatisticsGoTowardsWhatWasMeasured) {
  const Experiment normed = experiment_of(kUneven.c_str(), {"model.name=normed"});
  const std::size_t size = normed.layout->size(), trainable = normed.layout->trainable();
  ASSERT_LT(trainable, size);
  State state;
  state.add("theta", normed.layout, true, Flat(size, 5.0f));
  const Broadcast then(state, 1);
  std::ranges::fill(state.at("theta"), 1.0f);
  const Broadcast now(state, 2);
  Update update(share({.channels = {{.name = "theta", .layout = normed.layout, .relative_to = "theta"}}}));
  update["theta"].assign(size, 2.0f);
  bring_forward(update, then, now, 0.5);
  EXPECT_EQ(update["theta"].front(), -0.5f);  // 1 + ½·(2 − 5)
  EXPECT_EQ(update["theta"].back(), 1.5f);    // between 1 and 2
}

}  // namespace
}  // namespace parley
