// Stages in a whole round: what travels is smaller and bounded, and everyone still takes part.
#include <gtest/gtest.h>

#include <cmath>

#include "parley/engine/federation.h"

namespace parley {
namespace {

// Sends whole multiples of a step, and remembers what it did not send: error feedback. The server counts the rounds.
// What a stage may keep, and where, is what it shows.
class Whole final : public Stage {
 public:
  static constexpr float kStep = 0.25f;

  void start(State& state, const std::string& prefix) const override {
    state.add_scalar(prefix + "rounds", false, 0.0);
  }
  void forward(const ForwardTask& task, Update& update) const override {
    Flat& theta = update["theta"];
    const auto base = task.broadcast.at("theta");
    const ClientRecord* known = task.memory.known();
    Flat left = known != nullptr ? known->at(task.prefix + "left") : Flat(theta.size(), 0.0f);
    for (std::size_t i = 0; i < theta.size(); ++i) {
      const float wanted = theta[i] - base[i] + left[i], sent = kStep * std::round(wanted / kStep);
      theta[i] = base[i] + sent;
      left[i] = wanted - sent;
    }
    task.memory.amend({{task.prefix + "left", std::move(left)}});
    std::byte secret{};
    task.secrets({&secret, 1});  // there to be drawn from; what is drawn changes nothing here
  }
  void backward(const BackwardTask& task, Sum&) const override { task.state.scalar(task.prefix + "rounds") += 1.0; }
};

const Catalogue& catalogue() {
  static const Catalogue instance = [] {
    Catalogue all;
    all.stages.add({.name = "whole", .summary = "", .source = "", .options = {}},
                   [](const Options&) { return std::make_unique<Whole>(); });
    return all;
  }();
  return instance;
}

Experiment experiment(const std::vector<std::string>& assignments) {
  Config config = Config::parse(R"(
[data]
name = "synthetic"
rows = 300
features = 10
classes = 3
[partition]
clients = 10
[model]
name = "mlp"
hidden = [16]
[client]
batch = 10
lr = 0.1
)",
                                "staged.toml");
  for (const auto& assignment : assignments) config.set(assignment);
  DataCache cache;
  return build(resolve(config, catalogue()), catalogue(), cache);
}

struct Round {
  RoundReport report;
  Flat theta;
  double moved = 0.0;  // L2 norm of the step of theta
};

Round one_round(const Experiment& experiment, std::size_t threads = 2) {
  ClientStore store(ClientStore::Keep::memory, {}, real_files());
  Federation federation(experiment, store, threads);
  Round round{.report = federation.round(1)};
  const auto theta = std::as_const(federation).state().at("theta");
  round.theta.assign(theta.begin(), theta.end());
  double squared = 0.0;
  for (std::size_t i = 0; i < theta.size(); ++i) squared += std::pow(double{theta[i]} - experiment.initial[i], 2.0);
  round.moved = std::sqrt(squared);
  return round;
}

TEST(StagedRound, QuantisedUpdatesAreCountedAsTheyTravel) {
  const Experiment plain = experiment({}), packed = experiment({"stages.use=[\"quantise\"]", "stages.quantise_bits=8"});
  const Round before = one_round(plain), after = one_round(packed);
  const std::size_t size = plain.layout->size(), envelope = before.report.bytes_up / 10 - 4 * size;
  EXPECT_EQ(before.report.clients, 10u);
  EXPECT_EQ(after.report.clients, 10u);
  EXPECT_EQ(after.report.bytes_up, 10 * (size + 5 + envelope));  // a byte per number, the step, how many bits
  EXPECT_EQ(after.report.bytes_down, before.report.bytes_down);
  EXPECT_EQ(after.report.examples, before.report.examples);
  EXPECT_NEAR(after.moved, before.moved, 0.05 * before.moved);
}

TEST(StagedRound, BothChannelsOfScaffoldAreQuantised) {
  const Experiment one = experiment({"method.name=scaffold", "stages.use=[\"quantise\"]", "stages.quantise_bits=4"});
  const std::size_t size = one.layout->size();
  const std::size_t bytes = one_round(one).report.bytes_up;
  const std::size_t envelope =
      Update(share({.channels = {{.name = "delta_theta"}, {.name = "delta_control"}}})).wire_bytes();
  EXPECT_EQ(bytes, 10 * (2 * ((size + 1) / 2 + 5) + envelope));
}

TEST(StagedRound, ClippedClientsMoveTheModelNoFurther) {
  EXPECT_GT(one_round(experiment({})).moved, 0.1);
  const Experiment clipped = experiment({"stages.use=[\"clip\"]", "stages.clip_norm=0.01"});
  const Round round = one_round(clipped);
  EXPECT_EQ(round.report.clients, 10u);
  EXPECT_LE(round.moved, 0.01 * (1.0 + 1e-4));
  EXPECT_GT(round.moved, 0.001);
}

TEST(StagedRound, ABoundThatNobodyReachesChangesNoBit) {
  EXPECT_EQ(one_round(experiment({"stages.use=[\"clip\"]", "stages.clip_norm=1000"})).theta,
            one_round(experiment({})).theta);
}

TEST(StagedRound, StagesRunInTheOrderOfTheList) {
  const std::vector<std::string> values{"stages.clip_norm=0.01", "stages.quantise_bits=2"};
  auto clip_first = values, quantise_first = values;
  clip_first.push_back("stages.use=[\"clip\", \"quantise\"]");
  quantise_first.push_back("stages.use=[\"quantise\", \"clip\"]");
  EXPECT_NE(one_round(experiment(clip_first)).theta, one_round(experiment(quantise_first)).theta);
  // Rounding after clipping may leave the ball; clipping last may not.
  EXPECT_LE(one_round(experiment(quantise_first)).moved, 0.01 * (1.0 + 1e-4));
}

TEST(StagedRound, NoiseDoesNotDependOnTheThreads) {
  const Experiment one = experiment({"stages.use=[\"clip\", \"quantise\"]"});
  EXPECT_EQ(one_round(one, 1).theta, one_round(one, 3).theta);
}

// Rounds of steps that are each too small to be sent move the model all the same, since what is left is carried; and
// the state and the records that this takes are those that a checkpoint holds.
TEST(StagedRound, AStageRemembersInTheRecordAndInTheState) {
  const Experiment one = experiment({"stages.use=[\"whole\"]", "client.lr=0.02", "server.participation=1"});
  ClientStore store(ClientStore::Keep::memory, {}, real_files());
  Federation federation(one, store, 2);
  for (std::size_t round = 1; round <= 30; ++round) {
    federation.round(round);
    store.commit(round);
  }
  EXPECT_EQ(federation.state().scalar("stage0/rounds"), 30.0);
  EXPECT_EQ(store.clients().size(), 10u);
  const ClientRecord record = store.load(0).value();
  for (const float left : record.at("stage0/left")) EXPECT_LE(std::abs(left), Whole::kStep / 2);
  EXPECT_GT(federation.evaluate(*one.federated.data.test).accuracy(), 0.8);
}

}  // namespace
}  // namespace parley
