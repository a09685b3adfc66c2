// Models without a server: the graphs they live on, where they go, what they learn, and what a dying node costs them.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>
#include <set>

#include "parley/base/errors.h"
#include "parley/base/temp_folder.h"
#include "parley/engine/peer/events.h"
#include "parley/engine/peer/walk.h"
#include "parley/engine/run.h"
#include "parley/engine/test_experiment.h"
#include "parley/tensor/safetensors.h"

namespace parley {
namespace {

constexpr const char* kSmall = R"(
[run]
rounds = 3
[data]
name = "synthetic"
rows = 400
features = 8
classes = 4
[partition]
kind = "iid"
clients = 20
[model]
name = "mlp"
hidden = [8]
[client]
batch = 8
lr = 0.1
[method]
name = "mm"
)";

Experiment experiment(const std::vector<std::string>& assignments) {
  return experiment_of(kSmall, assignments);
}

std::string refusal(const std::vector<std::string>& assignments) {
  try {
    experiment(assignments);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

// The visits of all rounds, in the order in which they ended.
std::vector<Json> visits_of(const RunSummary& summary) {
  std::vector<Json> all;
  for (const auto& line : summary.metrics) all.insert(all.end(), line["visits"].begin(), line["visits"].end());
  return all;
}

RunSummary run(const std::vector<std::string>& assignments) {
  const TempFolder temp;
  return run_experiment(experiment(assignments), temp / "run", {.threads = 2});
}

Graph graph(const std::string& kind, std::size_t nodes, const std::map<std::string, Value>& values = {}) {
  Options options("graph", catalogue().graphs.at(kind).about.options);
  for (const auto& [key, value] : values) options.set(key, value);
  Stream stream(1, "graph");
  return catalogue().graphs.at(kind).make(options, nodes, stream);
}

std::vector<std::size_t> degrees(const Graph& graph) {
  std::vector<std::size_t> result;
  for (const auto& neighbours : graph) result.push_back(neighbours.size());
  return result;
}

TEST(Graphs, HaveTheLinksThatTheirNameSays) {
  EXPECT_EQ(degrees(graph("complete", 5)), std::vector<std::size_t>(5, 4));
  EXPECT_EQ(graph("ring", 4), (Graph{{1, 3}, {0, 2}, {1, 3}, {0, 2}}));
  EXPECT_EQ(degrees(graph("regular", 30, {{"degree", std::int64_t{3}}})), std::vector<std::size_t>(30, 3));
  EXPECT_NE(graph("regular", 30), graph("small_world", 30, {{"rewire", 0.0}}));  // no lattice is left
}

TEST(Graphs, ASmallWorldKeepsTheNumberOfLinks) {
  const auto degree = degrees(graph("small_world", 40, {{"rewire", 0.5}}));
  EXPECT_EQ(std::accumulate(degree.begin(), degree.end(), 0u), 160u);
  EXPECT_NE(degree, std::vector<std::size_t>(40, 4));
}

TEST(Graphs, ImpossibleOnesAreRefusedWithARemedy) {
  EXPECT_NE(refusal({"graph.kind=ring", "partition.clients=2"}).find("use \"complete\""), std::string::npos);
  EXPECT_NE(refusal({"graph.kind=regular", "graph.degree=20"}).find("at most 19 neighbours"), std::string::npos);
  EXPECT_NE(refusal({"graph.kind=regular", "graph.degree=3", "partition.clients=5"}).find("even"), std::string::npos);
  EXPECT_NE(refusal({"graph.kind=small_world", "graph.degree=3"}).find("even degree"), std::string::npos);
  EXPECT_NE(refusal({"graph.kind=rnig"}).find("did you mean 'ring'"), std::string::npos);
  EXPECT_NE(refusal({"graph.degree=3"}).find("option of regular, small_world"), std::string::npos);
}

TEST(Graphs, AFileIsReadAndItsFaultsAreNamed) {
  const TempFolder temp;
  const auto from = [&](const std::string& text) {
    std::ofstream(temp / "links.json") << text;
    return refusal({"graph.kind=file", "graph.path=" + (temp / "links.json").string(), "partition.clients=3"});
  };
  EXPECT_EQ(from("[[0, 1], [1, 2]]"), "accepted");
  EXPECT_NE(from("[[0, 1]]").find("no path leads from client 0 to client 2"), std::string::npos);
  EXPECT_NE(from("[[0, 3]]").find("link 0 is [0,3]; expected two different clients from 0 to 2"), std::string::npos);
  EXPECT_NE(from("[[1, 1]]").find("two different clients"), std::string::npos);
  EXPECT_NE(from("{").find("expected a list of links"), std::string::npos);
}

TEST(Belief, FollowsTheF1ScoresAndFadesWhereAClassWasNotSeen) {
  std::vector<double> belief(3);
  update_belief(belief, std::vector{0.8, 0.0, 0.6}, 0.05);
  EXPECT_EQ(belief, (std::vector{0.8, 0.0, 0.6}));
  EXPECT_DOUBLE_EQ(benefit(belief, {true, false, false}), 1.6);
  EXPECT_DOUBLE_EQ(benefit(belief, {false, true, false}), 2.4);
  EXPECT_DOUBLE_EQ(benefit(belief, {false, false, true}), 1.8);
  update_belief(belief, std::vector{0.0, 0.5, 0.0}, 0.05);
  EXPECT_DOUBLE_EQ(belief[0], 0.76);
  EXPECT_DOUBLE_EQ(belief[1], 0.5);
  EXPECT_DOUBLE_EQ(belief[2], 0.57);
}

TEST(Belief, ANodeLiesAboutAClassAsOftenAsItShouldAndAlwaysTheSame) {
  Dataset data;
  data.classes = 1000;
  data.labels = {3, 999};
  const std::vector<std::uint32_t> rows{0, 1};
  const View view{&data, rows};
  const auto count = [](const std::vector<bool>& bits) { return std::ranges::count(bits, true); };
  EXPECT_EQ(count(presence(view, 0.0, Stream(1, "presence"))), 2);
  EXPECT_NEAR(static_cast<double>(count(presence(view, 0.2, Stream(1, "presence")))), 200.0, 60.0);
  EXPECT_EQ(presence(view, 0.2, Stream(1, "presence")), presence(view, 0.2, Stream(1, "presence")));
}

class Choosing : public testing::Test {
 protected:
  static WalkOptions options(const std::string& route) {
    Options method("method", catalogue().methods.at("mm").about.options);
    method.set("route", route);
    method.set("patience", std::int64_t{2});
    method.set("max_buffer", std::int64_t{3});
    return WalkOptions(method);
  }
  // What nodes that hold these classes answer.
  Traveller::Ask asking(const std::vector<std::vector<bool>>& present) const {
    return [this, &present](std::size_t node) { return benefit(traveller_.belief, present[node]); };
  }
  Traveller traveller_{.belief = {0.8, 0.0, 0.6}, .seen = {0, 0, 0, 0}};
  const std::vector<std::vector<bool>> present_{{true, false, false}, {false, true, false}, {false, false, true}};
};

TEST_F(Choosing, GoesWhereTheBenefitIsHighest) {
  EXPECT_EQ(traveller_.choose({0, 1, 2}, options("benefit"), asking(present_)), 1u);
  EXPECT_EQ(traveller_.choose({0, 2}, options("benefit"), asking(present_)), 2u);
}

TEST_F(Choosing, BreaksTiesAtRandom) {
  std::set<std::size_t> chosen;
  const std::vector<std::vector<bool>> alike(3, {false, true, false});
  for (traveller_.moves = 0; traveller_.moves < 50; ++traveller_.moves) {
    chosen.insert(traveller_.choose({0, 1, 2}, options("benefit"), asking(alike)));
  }
  EXPECT_EQ(chosen.size(), 3u);
}

TEST_F(Choosing, GoesRoundInOrderAndThenWhereItWasLongestAgo) {
  traveller_.host = 2;
  EXPECT_EQ(traveller_.choose({0, 1, 3}, options("cyclic"), {}), 3u);
  traveller_.seen = {3, 0, 1, 2};
  EXPECT_EQ(traveller_.choose({0, 1, 3}, options("cyclic"), {}), 1u);
  traveller_.seen = {3, 4, 1, 2};
  EXPECT_EQ(traveller_.choose({0, 1, 3}, options("cyclic"), {}), 3u);
}

TEST_F(Choosing, PrefersNodesThatTheBufferLacks) {
  traveller_.seen = {3, 4, 5, 2};
  traveller_.round_began = 3;
  for (traveller_.moves = 0; traveller_.moves < 20; ++traveller_.moves) {
    EXPECT_NE(traveller_.choose({0, 1, 2}, options("fresh"), {}), 1u);
    EXPECT_EQ(traveller_.choose({1, 2, 3}, options("fresh"), {}), 3u);
  }
}

TEST_F(Choosing, TheBufferGrowsWhenNewNodesShowNoProgress) {
  const NodeTest same{.accuracy = 0.5, .f1 = {0, 0, 0}}, better{.accuracy = 0.9, .f1 = {0, 0, 0}};
  std::vector<std::size_t> sizes;
  for (const auto* test : {&same, &same, &better, &same, &same, &same, &same, &same, &same}) {
    traveller_.absorb(*test, *test, {}, options("benefit"));
    sizes.push_back(traveller_.buffer_size);
  }
  EXPECT_EQ(sizes, (std::vector<std::size_t>{1, 1, 1, 1, 2, 2, 3, 3, 3}));
}

// One model, a buffer as large as the federation and visits without replacement are federated averaging.
TEST(Walk, AFullBufferOverEveryoneIsFederatedAveragingBitForBit) {
  const TempFolder temp;
  run_experiment(experiment({"method.name=fedavg"}), temp / "fedavg", {.threads = 2});
  run_experiment(experiment({"method.buffer=20", "method.max_buffer=20", "method.route=fresh", "peer.visits=20",
                             "peer.test_share=0"}),
                 temp / "mm", {.threads = 2});
  EXPECT_EQ(read_file(temp / "mm" / "model.safetensors"), read_file(temp / "fedavg" / "model.safetensors"));
}

// A model that averages σ visits drops out π/σ (Kiss 2021, §6.3): here ½ over 20 visits, as federated averaging at
// 1/40.
TEST(Walk, ABufferThinsTheDropout) {
  const TempFolder temp;
  run_experiment(experiment({"method.name=fedavg", "model.dropout=0.025"}), temp / "fedavg", {.threads = 2});
  run_experiment(experiment({"method.buffer=20", "method.max_buffer=20", "method.route=fresh", "peer.visits=20",
                             "peer.test_share=0", "model.dropout=0.5"}),
                 temp / "mm", {.threads = 2});
  EXPECT_EQ(read_file(temp / "mm" / "model.safetensors"), read_file(temp / "fedavg" / "model.safetensors"));
}

TEST(Walk, WithoutABufferItIsTrainingAtOneNodeAfterTheOther) {
  const Experiment one = experiment({"method.name=smm", "peer.visits=5", "peer.test_share=0"});
  ClientStore store(ClientStore::Keep::memory, {}, real_files());
  Walk walk(one, store, 1);
  const RoundReport report = walk.round(1, {});

  const LocalOptions local(one.settings.client);
  LocalTrainer trainer(one.make_optimizer(one.settings.client));
  const auto model = one.new_model();
  std::ranges::copy(one.initial, model->parameters().begin());
  for (std::size_t visit = 0; visit < 5; ++visit) {
    const auto node = report.visits[visit]["node"].get<std::size_t>();
    trainer.train(*model, one.federated.partition.view(*one.federated.data.train, node), local, local.lr,
                  Stream(1, "batches", visit + 1, node));
  }
  EXPECT_TRUE(std::ranges::equal(model->parameters(), walk.state().at("theta")));
}

// What a broadcast says of itself and of "theta".
constexpr double kNamed = 4 + 8 + 4 + (4 + 5 + 8) + 4;

TEST(Walk, CountsTransmissionsEpochsAndBytes) {
  const auto summary = run({"method.name=smm", "method.models=4", "client.epochs=2", "peer.visits=12"});
  const Json& line = summary.metrics.front();
  const double weights = 4.0 * (8 * 8 + 8 + 8 * 4 + 4), belief = 4.0 * 4, question = 4.0 * 5;
  EXPECT_EQ(line["clients"], 12);
  EXPECT_EQ(line["transmissions"], 12.0);
  EXPECT_EQ(line["epochs"], 24.0);
  EXPECT_EQ(line["bytes_up"].get<double>(), 12 * (kNamed + weights + belief + 5 * question));
  EXPECT_EQ(line["bytes_down"], 0);
  EXPECT_GT(line["simulated_seconds"].get<double>(), 0.0);
  EXPECT_EQ(line["visits"].size(), 12u);
}

TEST(Walk, SeveralModelsPredictTogetherAndLearn) {
  const auto summary = run({"run.rounds=30", "method.models=4"});
  EXPECT_GT(summary.metrics.back()["test_accuracy"].get<double>(), 0.6);
  EXPECT_TRUE(summary.metrics.back().contains("single_accuracy"));
}

TEST(Walk, GoesAlongLinksAndSlowNodesTakeLonger) {
  const auto summary = run({"method.name=cyclic", "graph.kind=ring", "peer.visits=40", "run.rounds=1",
                            "network.speed_spread=1", "client.shuffle=false"});
  const auto visits = visits_of(summary);
  std::set<double> durations;
  for (std::size_t i = 1; i < visits.size(); ++i) {
    EXPECT_EQ(visits[i]["node"].get<int>(), (visits[i - 1]["node"].get<int>() + 1) % 20);
    durations.insert(std::round(1e3 * (visits[i]["end"].get<double>() - visits[i]["start"].get<double>())));
  }
  EXPECT_GT(durations.size(), 5u);
}

TEST(Walk, AFifthOfTheNodesDiesAndNoModelIsLost) {
  const Experiment one = experiment({"method.models=8", "run.rounds=30", "peer.failures=0.2", "peer.horizon=5",
                                     "network.step_seconds=0.1", "peer.visits=8"});
  const TempFolder temp;
  const auto summary = run_experiment(one, temp / "run", {.threads = 2});
  std::size_t dead = 0, lost = 0;
  for (const std::size_t node : one.network->nodes()) dead += std::isfinite(one.network->dies(node));
  std::set<std::size_t> travelling;
  for (const auto& visit : visits_of(summary)) {
    const auto end = visit["end"].get<double>();
    if (visit.contains("fate")) {
      ++lost;
      continue;
    }
    EXPECT_TRUE(one.network->alive(visit["node"].get<std::size_t>(), end - 1e-5));
    if (end > 5.0) travelling.insert(visit["model"].get<std::size_t>());
  }
  EXPECT_EQ(dead, 4u);
  EXPECT_GT(lost, 0u);
  EXPECT_EQ(travelling.size(), 8u);
}

TEST(Walk, NodesThatJoinLateAreNotVisitedBefore) {
  const Experiment one = experiment({"run.rounds=20", "peer.arrivals=0.5", "peer.horizon=4", "method.models=3",
                                     "peer.visits=10", "method.route=random"});
  const TempFolder temp;
  std::set<std::size_t> early, ever;
  for (const auto& visit : visits_of(run_experiment(one, temp / "run", {.threads = 2}))) {
    const auto node = visit["node"].get<std::size_t>();
    EXPECT_TRUE(one.network->alive(node, visit["start"].get<double>() + 1e-5));
    ever.insert(node);
    if (visit["start"].get<double>() == 0.0) early.insert(node);
  }
  EXPECT_EQ(early.size(), 3u);
  EXPECT_EQ(ever.size(), 20u);
}

TEST(Walk, WhenEveryNodeHasDiedTheRunSaysSo) {
  try {
    run({"peer.failures=0.99", "peer.horizon=1", "run.rounds=100"});
    FAIL() << "no error";
  } catch (const RunError& error) {
    EXPECT_NE(std::string(error.what()).find("all nodes have died; lower peer.failures"), std::string::npos);
  }
}

TEST(Walk, WhatCannotRunIsRefusedBeforeItStarts) {
  EXPECT_NE(refusal({"method.candidates=0"}).find("method.candidates"), std::string::npos);
  EXPECT_NE(refusal({"method.models=21"}).find("only 20 nodes hold data"), std::string::npos);
  EXPECT_NE(refusal({"method.buffer=6"}).find("method.max_buffer = 5: less than method.buffer = 6"), std::string::npos);
  EXPECT_NE(refusal({"stages.use=[\"clip\"]"}).find("mm has none"), std::string::npos);
  EXPECT_NE(refusal({"method.name=smm", "method.buffer=2"}).find("option of mm"), std::string::npos);
  EXPECT_NE(refusal({"peer.failures=1"}).find("peer.failures"), std::string::npos);
}

TEST(Walk, SettingsOfPeersAreCheckedButLeftOutOfOtherRuns) {
  EXPECT_EQ(experiment({"method.name=fedavg", "graph.kind=ring"}).settings.to_toml().find("[graph]"),
            std::string::npos);
  EXPECT_NE(experiment({"graph.kind=ring"}).settings.to_toml().find("kind = \"ring\""), std::string::npos);
  EXPECT_NE(refusal({"method.name=fedavg", "network.delay=-1"}).find("network.delay"), std::string::npos);
}

// The weights after a run.
Flat weights_after(const std::vector<std::string>& assignments) {
  const Experiment one = experiment(assignments);
  const TempFolder temp;
  run_experiment(one, temp / "run", {.threads = 2});
  return assemble(read_safetensors(temp / "run" / "model.safetensors"), *one.layout, "model");
}

double distance(const Flat& a, const Flat& b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(double{a[i]} - double{b[i]}));
  return largest;
}

TEST(Dpsgd, OnACompleteGraphItIsTheMeanOfAll) {
  const Flat averaged = weights_after({"method.name=fedavg", "server.weighting=uniform"});
  EXPECT_LT(distance(weights_after({"method.name=dpsgd", "peer.test_share=0"}), averaged), 1e-5);
}

TEST(Dpsgd, MixingKeepsTheMeanOnAnyGraph) {
  const std::string once = "run.rounds=1";
  const Flat averaged = weights_after({"method.name=fedavg", "server.weighting=uniform", once});
  for (const std::string kind : {"ring", "regular", "small_world"}) {
    const Flat mixed = weights_after({"method.name=dpsgd", "peer.test_share=0", once, "graph.kind=" + kind});
    EXPECT_LT(distance(mixed, averaged), 1e-6) << kind;
  }
  const Flat thrice = weights_after({"method.name=fedavg", "server.weighting=uniform"});
  EXPECT_GT(distance(weights_after({"method.name=dpsgd", "peer.test_share=0", "graph.kind=ring"}), thrice), 1e-4);
}

// Eq. 3.15 on a complete graph from equal weights x: node i holds x + d_i after a round, so it trains as if alone, and
// after two rounds the mean over nodes is that of nodes that trained for two epochs by themselves. Mixing what was
// trained is fedavg's two rounds instead.
TEST(Dpsgd, MixesWhatWasBeforeAndAddsTheStep) {
  const std::string unshuffled = "client.shuffle=false";
  const auto mixed = [&](const std::string& what) {
    return weights_after({"method.name=dpsgd", "method.mix=" + what, "peer.test_share=0", "run.rounds=2",
                          "client.epochs=1", unshuffled});
  };
  const Flat alone =
      weights_after({"method.name=fedavg", "server.weighting=uniform", "run.rounds=1", "client.epochs=2", unshuffled});
  EXPECT_LT(distance(mixed("before"), alone), 1e-5);
  EXPECT_GT(distance(mixed("trained"), alone), 1e-3);
}

TEST(Dpsgd, GoesOnWithThoseWhoAreThere) {
  const auto summary = run({"method.name=dpsgd", "graph.kind=regular", "run.rounds=20", "peer.failures=0.3",
                            "peer.arrivals=0.2", "peer.horizon=1"});
  EXPECT_LT(summary.metrics.front()["clients"].get<int>(), 20);
  EXPECT_EQ(summary.metrics.back()["clients"], 14);
  EXPECT_GT(summary.metrics.back()["test_accuracy"].get<double>(), 0.5);
}

TEST(Dpsgd, CountsWhatNeighboursSend) {
  const Json line = run({"method.name=dpsgd", "graph.kind=ring"}).metrics.front();
  EXPECT_EQ(line["transmissions"], 40.0);
  EXPECT_EQ(line["bytes_up"].get<double>(), 40 * (kNamed + 4 * (8 * 8 + 8 + 8 * 4 + 4)));
  EXPECT_EQ(line["epochs"], 20.0);
  EXPECT_FALSE(line.contains("visits"));
}

TEST(Dpsgd, AServerStepIsRefused) {
  EXPECT_NE(refusal({"method.name=dpsgd", "server.step=adam"}).find("has no server to take it"), std::string::npos);
}

TEST(Gossip, LearnsFromRandomNeighbours) {
  const auto summary = run({"method.name=gossip", "graph.kind=regular", "run.rounds=20"});
  EXPECT_GT(summary.metrics.back()["test_accuracy"].get<double>(), 0.6);
  EXPECT_GT(summary.metrics.back()["single_accuracy"].get<double>(), 0.5);
  double sent = 0.0, trained = 0.0;
  for (const auto& line : summary.metrics) {
    sent += line["transmissions"].get<double>();
    trained += line["clients"].get<double>();
  }
  EXPECT_EQ(trained, 400.0);
  EXPECT_GE(sent, trained);         // who trains has been sent something
  EXPECT_LE(sent, trained + 40.0);  // the rest is on its way or waits
}

TEST(Gossip, TheLastOneLeftLearnsFromItselfAndThenNobodyIsLeft) {
  const auto summary = run({"method.name=gossip", "partition.clients=2", "peer.failures=0.5", "peer.horizon=0.1",
                            "peer.visits=3", "run.rounds=2"});
  EXPECT_EQ(summary.metrics.back()["transmissions"], 0.0);
  EXPECT_EQ(summary.metrics.back()["clients"], 3);
  EXPECT_THROW(run({"method.name=gossip", "peer.failures=0.99", "peer.horizon=1", "run.rounds=100"}), RunError);
}

// A message comes to a node: each counts by its share of the two ages, and the older age is kept. The learning rate is
// so small that training, one visit further, leaves what was merged.
TEST(Gossip, MergesByAge) {
  const Experiment one = experiment({"method.name=gossip", "partition.clients=2", "peer.visits=1", "client.lr=1e-30"});
  struct Case {
    std::size_t own, sent;
    float share;  // of what was sent
  };
  for (const auto& [own, sent, share] : {Case{3, 1, .25f}, Case{1, 3, .75f}, Case{0, 4, 1.0f}, Case{0, 0, .5f}}) {
    ClientStore store(ClientStore::Keep::memory, {}, real_files());
    const auto weights = [&](float value) { return Flat(one.layout->size(), value); };
    store.stage(0, {{"theta", weights(0.0f)}});
    store.stage(1, {{"theta", weights(8.0f)}, {"message 7", weights(16.0f)}});
    store.commit(1);
    const auto engine = make_engine(one, store, 1);
    Json progress = engine->progress();
    progress["age"] = {0, own};
    progress["sent"] = 8;
    progress["messages"] = Json::array({{7, 1, sent, false}});  // number, to, age, whether it waits
    progress["events"]["events"] = Json::array({{0.0, 1, 0, PeerEvent::Kind::arrive, 7}});
    engine->restore(progress);
    engine->round(2, {});
    store.commit(2);
    const ClientRecord record = store.load(1).value();
    for (const float x : record.at("theta")) EXPECT_FLOAT_EQ(x, 8.0f + share * 8.0f) << own << ", " << sent;
    EXPECT_EQ(engine->progress().at("age").at(1), std::max(own, sent) + 1);
  }
}

// Training takes as long as a period, so that events fall together, or many of them, so that most messages come to a
// busy node. A few are on their way at any time.
TEST(Gossip, ABusyNodeKeepsOnlyTheLastMessage) {
  for (const auto& [period, most] : {std::pair("0.1", 15u), std::pair("0.02", 30u)}) {
    const Experiment one = experiment({"method.name=gossip", std::string("method.period=") + period, "client.epochs=5",
                                       "client.batch=32", "data.rows=300", "partition.clients=5"});
    ClientStore store(ClientStore::Keep::memory, {}, real_files());
    const auto engine = make_engine(one, store, 1);
    for (std::size_t round = 1; round <= 40; ++round) {
      const RoundReport report = engine->round(round, {});
      EXPECT_GE(report.transmissions, 1u);
      store.commit(round);
      EXPECT_LE(engine->progress().at("messages").size(), most) << period;
    }
  }
}

TEST(Walk, DoesNotGoToAndFroInASparseGraph) {
  const auto summary = run({"graph.kind=ring", "peer.visits=100", "method.candidates=5"});
  std::set<std::size_t> seen;
  for (const auto& visit : visits_of(summary)) seen.insert(visit["node"].get<std::size_t>());
  EXPECT_GT(seen.size(), 8u);
}

TEST(Graphs, JoinTheClientsThatHoldData) {
  const auto summary = run({"graph.kind=ring", "partition.kind=dirichlet", "partition.alpha=0.01", "peer.visits=10"});
  EXPECT_EQ(summary.metrics.size(), 3u);
}

}  // namespace
}  // namespace parley
