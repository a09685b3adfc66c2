// parley serve and parley join as real processes on loopback: the bytes of parley run, whatever is killed meanwhile.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "free_port.h"
#include "program.h"

namespace parley::tests {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kNodes = 8;
constexpr const char* kExperiment = R"(
[run]
rounds = 5
[data]
name = "synthetic"
rows = 400
features = 8
classes = 4
[partition]
kind = "dirichlet"
clients = 8
alpha = 1.0
[model]
name = "mlp"
hidden = [6]
[client]
batch = 10
lr = 0.05
)";

// Rounds that take a few tenths of a second, so that something can happen in them.
constexpr const char* kSlowly = " client.epochs=400 data.rows=2000 model.hidden=[32]";

class Wire : public testing::Test {
 protected:
  Wire() { write_text(folder / "a.toml", kExperiment); }

  std::vector<std::string> with_settings(std::vector<std::string> arguments) const {
    for (const auto& word : words_of(settings)) arguments.insert(arguments.end(), {"--set", word});
    return arguments;
  }
  std::unique_ptr<Process> start(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), parley_binary());
    return std::make_unique<Process>(arguments, folder.path());
  }
  std::unique_ptr<Process> start_server(const std::string& more = "") const {
    auto arguments = with_settings({"serve", "a.toml", "--listen", address, "--out", "served", "--threads", "1"});
    for (const auto& word : words_of(more.empty() ? security : more)) arguments.push_back(word);
    return start(arguments);
  }
  std::unique_ptr<Process> start_node(std::size_t client, const std::string& more = "") const {
    std::vector<std::string> arguments{"join", "--server", address, "--client", std::to_string(client)};
    for (const auto& word : words_of(more.empty() ? security : more)) arguments.push_back(word);
    return start(arguments);
  }
  void start_nodes() {
    for (std::size_t client = 0; client < kNodes; ++client) nodes.push_back(start_node(client));
  }
  std::string simulated() const {
    const Outcome run = parley(folder.path(), with_settings({"run", "a.toml", "--out", "run", "--threads", "1"}));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return read_text(folder / "run/model.safetensors");
  }
  std::string served() const { return read_text(folder / "served/model.safetensors"); }
  std::size_t rounds_served() const {
    const auto file = folder / "served/metrics.jsonl";
    return std::filesystem::exists(file) ? count_lines(file) : 0;
  }
  nlohmann::json last_metrics(const std::string& run) const {
    const std::string lines = read_text(folder / run / "metrics.jsonl");
    return nlohmann::json::parse(lines.substr(lines.rfind('\n', lines.size() - 2) + 1));
  }
  // False when it did not come true in a minute.
  static bool eventually(const std::function<bool()>& condition) {
    for (int tries = 0; tries < 1200 && !condition(); ++tries) std::this_thread::sleep_for(50ms);
    return condition();
  }
  void expect_well_ended(Process& process) const {
    const Outcome outcome = process.wait();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  }

  TempFolder folder;
  std::string settings, security = "--insecure";
  const std::string address = "127.0.0.1:" + std::to_string(free_port());
  std::vector<std::unique_ptr<Process>> nodes;
};

class WireMethods : public Wire, public testing::WithParamInterface<const char*> {};

TEST_P(WireMethods, GiveTheSimulationsModelBitForBit) {
  settings = GetParam();
  const auto server = start_server();
  start_nodes();
  expect_well_ended(*server);
  for (const auto& node : nodes) expect_well_ended(*node);
  EXPECT_EQ(served(), simulated());
}

INSTANTIATE_TEST_SUITE_P(All, WireMethods,
                         testing::Values("method.name=fedavg", "method.name=fedavg server.participation=0.5",
                                         "method.name=fola", "method.name=fola method.curvature=input",
                                         "method.name=scaffold", "method.name=virtual", "method.name=fne",
                                         "method.name=scaffold serve.compression=zstd model.hidden=[300,200]",
                                         "server.cohort=fedcs server.steps=adaptive server.round_seconds=1000 "
                                         "network.speed_spread=1"));

// What nodes measure on their own test data is what the simulation measures for each client.
class WireOwnTests : public Wire, public testing::WithParamInterface<const char*> {};

TEST_P(WireOwnTests, GiveTheSimulationsNumbers) {
  settings = std::string("evaluate.clients=true ") + GetParam();
  const auto server = start_server();
  start_nodes();
  const Outcome ended = server->wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_NE(ended.out.find("nodes' own tests "), std::string::npos) << ended.out;
  for (const auto& node : nodes) expect_well_ended(*node);
  EXPECT_EQ(served(), simulated());
  EXPECT_EQ(read_text(folder / "served/clients.json"), read_text(folder / "run/clients.json"));
  const auto there = last_metrics("served"), here = last_metrics("run");
  for (const char* key : {"s_accuracy", "s_loss", "s_ece", "s_brier", "s_spread", "mt_accuracy", "mt_loss"}) {
    ASSERT_TRUE(here.contains(key)) << key;
    EXPECT_EQ(there.value(key, nlohmann::json()), here[key]) << key;
  }
}

// Private weights are a part of a client's model.
INSTANTIATE_TEST_SUITE_P(All, WireOwnTests,
                         testing::Values("partition.holdout=0.25", "method.name=scaffold evaluate.every=2",
                                         "method.name=ditto partition.holdout=0.25"));

TEST_F(Wire, LeavesOutWhoIsNotInTime) {
  settings = std::string("server.cohort=fedcs server.round_seconds=5 serve.deadline=6 run.rounds=4") + kSlowly;
  const auto server = start_server();
  start_nodes();
  ASSERT_TRUE(eventually([&] { return rounds_served() >= 1; }));
  nodes[2]->kill(SIGSTOP);
  expect_well_ended(*server);
  const auto last = last_metrics("served");
  EXPECT_EQ(last["left_out"], 1.0) << last.dump();
  EXPECT_EQ(last["clients"], 7) << last.dump();
  EXPECT_FALSE(last.contains("refused")) << last.dump();
}

TEST_F(Wire, GoesOnAfterKillsOfTheServerAndOfANodeWithTheSameBytes) {
  settings = std::string("method.name=scaffold run.rounds=12") + kSlowly;  // clients remember
  auto server = start_server();
  start_nodes();
  for (int kill = 0; kill < 2; ++kill) {
    const std::size_t before = rounds_served();
    ASSERT_TRUE(eventually([&] { return rounds_served() > before; }));
    server->kill(SIGKILL);
    nodes[3]->kill(SIGKILL);
    server->wait();
    nodes[3] = start_node(3);
    server = start_server();
  }
  expect_well_ended(*server);
  for (const auto& node : nodes) expect_well_ended(*node);
  EXPECT_EQ(rounds_served(), 12u);
  EXPECT_EQ(served(), simulated());
  const Outcome audit = parley(folder.path(), {"audit", "served", "--quiet"});
  EXPECT_EQ(audit.exit_code, 0) << audit.err;
  EXPECT_NE(audit.out.find("the chain is whole"), std::string::npos);
}

// With all in the buffer nothing is ever late.
TEST_F(Wire, BufferedRoundsOfAllGiveTheSimulationsModel) {
  settings = "method.name=scaffold server.rounds=buffered";
  const auto server = start_server();
  start_nodes();
  expect_well_ended(*server);
  for (const auto& node : nodes) expect_well_ended(*node);
  EXPECT_EQ(served(), simulated());
  settings = "method.name=scaffold";
  std::filesystem::remove_all(folder / "run");
  EXPECT_EQ(served(), simulated());
}

TEST_F(Wire, BufferedRoundsWaitForNobodyAndGoOnAfterKills) {
  settings = std::string("method.name=scaffold server.rounds=buffered server.buffer=3 run.rounds=20") + kSlowly;
  auto server = start_server();
  start_nodes();
  ASSERT_TRUE(eventually([&] { return rounds_served() >= 4; }));
  nodes[3]->kill(SIGKILL);
  nodes[3]->wait();
  nodes[3] = start_node(3);
  server->kill(SIGKILL);
  server->wait();
  server = start_server();
  expect_well_ended(*server);
  for (const auto& node : nodes) expect_well_ended(*node);
  double oldest = 0.0, answers = 0.0;
  std::istringstream lines(read_text(folder / "served/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto metrics = nlohmann::json::parse(line);
    answers += metrics["clients"].get<double>();
    oldest = std::max(oldest, metrics["max_staleness"].get<double>());
  }
  EXPECT_EQ(rounds_served(), 20u);
  EXPECT_GE(answers, 2 * 20.0);  // 3 a round, but for who was killed while it sent its answer
  EXPECT_GE(oldest, 1.0);
  EXPECT_EQ(parley(folder.path(), {"audit", "served", "--quiet"}).exit_code, 0);
}

TEST_F(Wire, ALateAnswerCountsInTheRoundInWhichItComes) {
  settings = std::string("server.rounds=buffered serve.deadline=1 server.min_clients=1 run.rounds=14") + kSlowly;
  const auto server = start_server();
  start_nodes();
  ASSERT_TRUE(eventually([&] { return rounds_served() >= 1; }));
  nodes[2]->kill(SIGSTOP);
  const std::size_t then = rounds_served();
  ASSERT_TRUE(eventually([&] { return rounds_served() >= then + 3; }));
  nodes[2]->kill(SIGCONT);
  expect_well_ended(*server);
  for (const auto& node : nodes) expect_well_ended(*node);
  std::istringstream lines(read_text(folder / "served/metrics.jsonl"));
  bool late = false;
  for (std::string line; std::getline(lines, line);) {
    late = late || nlohmann::json::parse(line)["max_staleness"].get<double>() >= 2.0;
  }
  EXPECT_TRUE(late) << read_text(folder / "served/metrics.jsonl");
}

TEST_F(Wire, DoesNotWaitForAHungNodeBeyondTheDeadline) {
  settings = std::string("serve.deadline=1 run.rounds=6") + kSlowly;
  const auto server = start_server();
  start_nodes();
  ASSERT_TRUE(eventually([&] { return rounds_served() >= 1; }));
  nodes[2]->kill(SIGSTOP);
  expect_well_ended(*server);
  EXPECT_EQ(rounds_served(), 6u);
  const auto last = read_text(folder / "served/metrics.jsonl");
  EXPECT_NE(last.find("client 2: no answer within 1 s"), std::string::npos) << last;
}

TEST_F(Wire, ANodeThatWasKilledIsAskedAgain) {
  settings = std::string("run.rounds=6") + kSlowly;
  const auto server = start_server();
  start_nodes();
  ASSERT_TRUE(eventually([&] { return rounds_served() >= 1; }));
  nodes[5]->kill(SIGKILL);
  nodes[5]->wait();
  std::this_thread::sleep_for(300ms);
  nodes[5] = start_node(5);
  expect_well_ended(*server);
  EXPECT_EQ(served(), simulated());
}

TEST_F(Wire, StopsOnSigtermAndSaysHowToGoOn) {
  settings = std::string("run.rounds=50") + kSlowly;
  const auto server = start_server();
  start_nodes();
  ASSERT_TRUE(eventually([&] { return rounds_served() >= 1; }));
  server->kill(SIGTERM);
  const Outcome outcome = server->wait();
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.err.find("start again to go on"), std::string::npos) << outcome.err;
  nodes[0]->kill(SIGTERM);
  expect_well_ended(*nodes[0]);
}

TEST_F(Wire, AFolderHasOneServer) {
  const auto server = start_server();
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(folder / "served/federation/journal.sqlite"); }));
  const Outcome second =
      parley(folder.path(), {"serve", "a.toml", "--listen", "127.0.0.1:0", "--insecure", "--out", "served"});
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_NE(second.err.find("another process"), std::string::npos) << second.err;
}

TEST_F(Wire, RefusesWhatDoesNotFitOnBothSides) {
  const auto server = start_server();
  write_text(folder / "other.toml", std::string(kExperiment) + "epochs = 3\n");
  const Outcome node =
      parley(folder.path(), {"join", "other.toml", "--server", address, "--client", "0", "--insecure"});
  EXPECT_EQ(node.exit_code, 2);
  EXPECT_NE(node.err.find("other settings"), std::string::npos) << node.err;
  const Outcome nowhere = parley(folder.path(), {"join", "--server", address, "--client", "99", "--insecure"});
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_NE(nowhere.err.find("--client 99: the partition has 8 clients"), std::string::npos) << nowhere.err;
  const Outcome audit = parley(folder.path(), {"audit", "served"});
  EXPECT_NE(audit.out.find("other settings"), std::string::npos) << audit.out;
  EXPECT_NE(audit.out.find("declined"), std::string::npos) << audit.out;
}

TEST_F(Wire, InsecureIsForLoopback) {
  const Outcome far = parley(folder.path(), {"serve", "a.toml", "--listen", "0.0.0.0:0", "--insecure"});
  EXPECT_EQ(far.exit_code, 2);
  EXPECT_NE(far.err.find("beyond this machine"), std::string::npos) << far.err;
  const Outcome bare = parley(folder.path(), {"join", "--server", address, "--client", "0"});
  EXPECT_EQ(bare.exit_code, 2);
  EXPECT_NE(bare.err.find("--keys"), std::string::npos) << bare.err;
}

TEST_F(Wire, NodesWithFilesOfTheirOwnTrainTogether) {
  std::string rows[2];
  for (int i = 0; i < 60; ++i) {
    rows[i % 2] += std::to_string(i % 3) + "," + std::to_string((i * 7) % 11) + "," + std::to_string(i % 3 * 10) + "\n";
  }
  write_text(folder / "a.csv", "label,x,y\n" + rows[0]);
  write_text(folder / "b.csv", "label,x,y\n" + rows[1]);
  write_text(folder / "a.toml",
             "[run]\nrounds = 3\n[data]\nname = \"csv\"\npath = \"a.csv\"\nlabel = \"label\"\nnormalize = \"none\"\n"
             "test_fraction = 0.2\n[model]\nname = \"mlp\"\nhidden = [4]\n[client]\nlr = 0.01\n[serve]\nnodes = 2\n");
  const auto server = start_server();
  for (const char* name : {"a", "b"}) {
    nodes.push_back(start({"join", "--server", address, "--name", name, "--insecure", "--data", "name=csv", "--data",
                           std::string("path=") + name + ".csv", "--data", "label=label", "--data", "normalize=none"}));
  }
  expect_well_ended(*server);
  for (const auto& node : nodes) expect_well_ended(*node);
  EXPECT_EQ(rounds_served(), 3u);
}

// Two clinics that measure in different places of the same scale: only with scales of both together does a number mean
// the same at each. The model learns y = x from both, though neither has seen the other's range.
TEST_F(Wire, NodesAgreeOnScalesOfInputsAndTargets) {
  std::string rows[3];
  for (int i = 0; i < 60; ++i) {
    const auto row = [](int x) { return std::to_string(x) + "," + std::to_string(3 * x + 1) + "\n"; };
    rows[0] += row(i);
    rows[1] += row(1000 + i);
    rows[2] += row(i % 2 == 0 ? i : 1000 + i);
  }
  for (int k = 0; k < 3; ++k) write_text(folder / (std::string(1, "abs"[k]) + ".csv"), "x,y\n" + rows[k]);
  write_text(folder / "a.toml",
             "[run]\nrounds = 20\n[data]\nname = \"csv\"\npath = \"s.csv\"\ntargets = [\"y\"]\n[model]\nname = "
             "\"mlp\"\nhidden = []\n[client]\nlr = 0.1\nepochs = 2\n[serve]\nnodes = 2\n");
  const auto server = start_server();
  for (const char* name : {"a", "b"}) {
    nodes.push_back(start({"join", "--server", address, "--name", name, "--insecure", "--data", "name=csv", "--data",
                           std::string("path=") + name + ".csv", "--data", "targets=[\"y\"]"}));
  }
  expect_well_ended(*server);
  for (const auto& node : nodes) expect_well_ended(*node);
  const std::string metrics = read_text(folder / "served/metrics.jsonl");
  const auto last = nlohmann::json::parse(metrics.substr(metrics.rfind('\n', metrics.size() - 2) + 1));
  // The targets' deviation is about 1500; with scales of its own each clinic's line would be another.
  EXPECT_LT(last["test_rmse"].get<double>(), 15.0) << last.dump();
}

TEST_F(Wire, ColumnsAndClassesAreComparedByName) {
  write_text(folder / "s.csv", "age,sex,label\n1,m,ill\n2,f,well\n3,m,ill\n4,f,well\n5,f,ill\n");
  write_text(folder / "other.csv", "age,sex,label\n1,m,ill\n2,d,well\n3,m,ill\n4,d,well\n5,d,ill\n");
  write_text(folder / "class.csv", "age,sex,label\n1,m,ill\n2,f,hale\n3,m,ill\n4,f,hale\n5,f,ill\n");
  write_text(folder / "a.toml",
             "[data]\nname = \"csv\"\npath = \"s.csv\"\n[model]\nname = \"mlp\"\nhidden = [2]\n[serve]\nnodes = 1\n");
  const auto server = start_server();
  const auto refusal = [&](const std::string& file) {
    const Outcome node = parley(folder.path(), {"join", "--server", address, "--name", "n", "--insecure", "--data",
                                                "name=csv", "--data", "path=" + file});
    EXPECT_EQ(node.exit_code, 2);
    return node.err;
  };
  EXPECT_NE(refusal("other.csv").find("its column 2 is 'sex=d', in this federation it is 'sex=f'"), std::string::npos);
  EXPECT_NE(refusal("class.csv").find("its class 1 is 'hale', in this federation it is 'ill'"), std::string::npos);
  const Outcome audit = parley(folder.path(), {"audit", "served"});
  EXPECT_NE(audit.out.find("sex=d"), std::string::npos) << audit.out;
}

TEST_F(Wire, ANodeWhoseFolderWasLostSaysSoAndGoesOn) {
  settings = std::string("method.name=scaffold run.rounds=8") + kSlowly;
  const auto server = start_server();
  start_nodes();
  ASSERT_TRUE(eventually([&] { return rounds_served() >= 2; }));
  nodes[5]->kill(SIGKILL);
  nodes[5]->wait();
  std::filesystem::remove_all(folder / "runs/node-client-5");
  nodes[5] = start_node(5);
  expect_well_ended(*server);
  const Outcome node = nodes[5]->wait();
  EXPECT_NE(node.err.find("what this client remembered is gone"), std::string::npos) << node.err;
  const Outcome audit = parley(folder.path(), {"audit", "served"});
  EXPECT_NE(audit.out.find("forgot"), std::string::npos) << audit.out;
}

TEST_F(Wire, AServerNeedsNoData) {
  write_text(folder / "n.csv", "x,y,label\n1,2,0\n3,1,1\n2,2,0\n5,1,1\n1,1,0\n4,2,1\n");
  write_text(
      folder / "a.toml",
      "[run]\nrounds = 3\n[data]\nname = \"elsewhere\"\nshape = [2]\nclasses = 2\n[model]\nname = \"mlp\"\nhidden = "
      "[3]\n[serve]\nnodes = 2\n");
  const auto server = start_server();
  for (const char* name : {"a", "b"}) {
    nodes.push_back(start(
        {"join", "--server", address, "--name", name, "--insecure", "--data", "name=csv", "--data", "path=n.csv"}));
  }
  const Outcome outcome = server->wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("done: 3 rounds"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("test"), std::string::npos) << outcome.out;  // nothing was tested
  for (const auto& node : nodes) expect_well_ended(*node);
  EXPECT_EQ(rounds_served(), 3u);
  EXPECT_TRUE(std::filesystem::exists(folder / "served/report.html"));
  const Outcome alone = parley(folder.path(), {"run", "a.toml"});
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_NE(alone.err.find("there are no examples here; name data, or use parley serve"), std::string::npos)
      << alone.err;
}

TEST_F(Wire, AServerWithoutDataHasTheAccuracyThatItsNodesMeasure) {
  std::string rows[2];
  for (int i = 0; i < 80; ++i) rows[i % 2] += fmt::format("{},{},{}\n", i % 40, (i * 7) % 11, i % 40 < 20 ? 0 : 1);
  for (int k : {0, 1}) write_text(folder / (std::string(1, "ab"[k]) + ".csv"), "x,y,label\n" + rows[k]);
  write_text(
      folder / "a.toml",
      "[run]\nrounds = 30\n[data]\nname = \"elsewhere\"\nshape = [2]\nclasses = 2\n[partition]\nholdout = 0.25\n"
      "[model]\nname = \"mlp\"\nhidden = []\n[client]\nlr = 0.5\n[evaluate]\nclients = true\n[serve]\nnodes = 2\n");
  const auto server = start_server();
  for (const char* name : {"a", "b"}) {
    nodes.push_back(start({"join", "--server", address, "--name", name, "--insecure", "--data", "name=csv", "--data",
                           std::string("path=") + name + ".csv"}));
  }
  const Outcome outcome = server->wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const auto& node : nodes) expect_well_ended(*node);
  const auto last = last_metrics("served");
  EXPECT_GT(last.value("s_accuracy", 0.0), 0.8) << last.dump();  // which side of x = 20: a line tells it
  EXPECT_TRUE(last.contains("s_spread")) << last.dump();
  const auto table = nlohmann::json::parse(read_text(folder / "served/clients.json"));
  ASSERT_EQ(table.size(), 2u);
  EXPECT_EQ(table[0]["test_examples"], 8);  // a quarter of its 32 training rows
  EXPECT_NE(outcome.out.find("nodes' own tests "), std::string::npos) << outcome.out;
}

TEST_F(Wire, SaysWhatItIsDoingToWhoMayRead) {
  settings = std::string("run.rounds=50") + kSlowly;
  const auto server = start_server("--insecure --monitor 127.0.0.1:0");
  start_nodes();
  ASSERT_TRUE(eventually([&] { return rounds_served() >= 1; }));
  const Outcome status = parley(folder.path(), {"status", "served"});
  EXPECT_EQ(status.exit_code, 0) << status.err;
  EXPECT_NE(status.out.find("8 of 8 nodes connected"), std::string::npos) << status.out;
  const auto mode = std::filesystem::status(folder / "served/federation/monitor.json").permissions();
  EXPECT_EQ(mode & std::filesystem::perms::others_all, std::filesystem::perms::none);
  server->kill(SIGKILL);
  server->wait();
  const Outcome gone = parley(folder.path(), {"status", "served"});
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_NE(gone.err.find("no server answers there"), std::string::npos) << gone.err;
}

TEST_F(Wire, ASimulationCanBeWatched) {
  settings = std::string("run.rounds=200") + kSlowly;
  const auto run = start(with_settings({"run", "a.toml", "--out", "run", "--threads", "1", "--serve", "127.0.0.1:0"}));
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(folder / "run/metrics.jsonl"); }));
  run->kill(SIGTERM);
  const Outcome outcome = run->wait();
  EXPECT_NE(outcome.out.find("watch it at http://127.0.0.1:"), std::string::npos) << outcome.out;
  const Outcome taken = parley(folder.path(), {"run", "a.toml", "--out", "other", "--serve", "nowhere"});
  EXPECT_EQ(taken.exit_code, 2);
  EXPECT_NE(taken.err.find("nowhere: expected host:port"), std::string::npos) << taken.err;
}

class WireTls : public Wire {
 protected:
  WireTls() {
    security = "--keys keys";
    keys("ca");
    keys("server --host 127.0.0.1");
    for (std::size_t client = 0; client < kNodes; ++client) keys("node client-" + std::to_string(client));
  }
  void keys(const std::string& arguments) const {
    auto words = words_of(arguments);
    words.insert(words.begin(), "keys");
    const Outcome made = parley(folder.path(), words);
    EXPECT_EQ(made.exit_code, 0) << made.err;
  }
};

TEST_F(WireTls, GivesTheSimulationsModelAndKeysAreSecret) {
  const auto server = start_server();
  start_nodes();
  expect_well_ended(*server);
  for (const auto& node : nodes) expect_well_ended(*node);
  EXPECT_EQ(served(), simulated());
  const auto mode = std::filesystem::status(folder / "keys/client-0.key").permissions();
  EXPECT_EQ(mode & (std::filesystem::perms::group_all | std::filesystem::perms::others_all),
            std::filesystem::perms::none);
}

TEST_F(WireTls, ANodeCanActOnlyAsItself) {
  const auto server = start_server();
  // client-1's pair under another's name.
  std::filesystem::copy(folder / "keys/client-1.crt", folder / "keys/thief.crt");
  std::filesystem::copy(folder / "keys/client-1.key", folder / "keys/thief.key");
  const Outcome thief =
      parley(folder.path(), {"join", "--server", address, "--client", "0", "--name", "thief", "--keys", "keys"});
  EXPECT_EQ(thief.exit_code, 2);
  EXPECT_NE(thief.err.find("its certificate is client-1's"), std::string::npos) << thief.err;
}

TEST_F(WireTls, ACertificateIsRevokedWhileTheServerRuns) {
  settings = std::string("run.rounds=60 serve.deadline=2") + kSlowly;
  const auto server = start_server();
  start_nodes();
  ASSERT_TRUE(eventually([&] { return rounds_served() >= 1; }));
  keys("revoke client-4");
  const Outcome revoked = nodes[4]->wait();
  EXPECT_EQ(revoked.exit_code, 2);
  EXPECT_NE(revoked.err.find("its certificate was revoked"), std::string::npos) << revoked.err;
  const std::size_t then = rounds_served();
  EXPECT_TRUE(eventually([&] { return rounds_served() > then; })) << "the others did not go on";
}

TEST_F(WireTls, AStrangersCertificateIsNotLetIn) {
  const auto server = start_server();
  for (const char* command : {"keys ca --folder strange", "keys node client-0 --folder strange"}) {
    parley(folder.path(), words_of(command));
  }
  std::filesystem::copy_file(folder / "keys/ca.crt", folder / "strange/ca.crt",
                             std::filesystem::copy_options::overwrite_existing);
  const auto stranger = start_node(0, "--keys strange");
  std::this_thread::sleep_for(2s);
  EXPECT_TRUE(stranger->running());  // it keeps trying
  stranger->kill(SIGTERM);
  const Outcome outcome = stranger->wait();
  EXPECT_EQ(outcome.err.find("welcome"), std::string::npos) << outcome.err;
  EXPECT_EQ(parley(folder.path(), {"audit", "served"}).out.find("joined"), std::string::npos);
}

// Two relays with four nodes each.
class WireTree : public Wire {
 protected:
  std::unique_ptr<Process> start_relay(std::size_t which, const std::string& clients,
                                       const std::string& more = "") const {
    std::vector<std::string> arguments{"relay",
                                       "--server",
                                       address,
                                       "--listen",
                                       relay_address[which],
                                       "--clients",
                                       clients,
                                       "--name",
                                       "relay-" + std::to_string(which)};
    for (const auto& word : words_of(security + " " + more)) arguments.push_back(word);
    return start(arguments);
  }
  std::unique_ptr<Process> start_behind(std::size_t relay, std::size_t client) const {
    std::vector<std::string> arguments{"join", "--server", relay_address[relay], "--client", std::to_string(client)};
    for (const auto& word : words_of(security)) arguments.push_back(word);
    return start(arguments);
  }
  void start_tree(const std::string& more = "") {
    for (std::size_t r : {0, 1}) {
      relays.push_back(start_relay(r, r == 0 ? "0-3" : "4-7", more));
      for (std::size_t c = 4 * r; c < 4 * r + 4; ++c) nodes.push_back(start_behind(r, c));
    }
  }
  void expect_all_well_ended(Process& server) {
    expect_well_ended(server);
    for (const auto& relay : relays) expect_well_ended(*relay);
    for (const auto& node : nodes) expect_well_ended(*node);
  }
  // The numbers of a safetensors file of float32.
  static std::vector<float> numbers_of(const std::string& file) {
    std::uint64_t header = 0;
    std::memcpy(&header, file.data(), sizeof header);
    std::vector<float> numbers((file.size() - 8 - header) / sizeof(float));
    std::memcpy(numbers.data(), file.data() + 8 + header, numbers.size() * sizeof(float));
    return numbers;
  }

  const std::string relay_address[2] = {"127.0.0.1:" + std::to_string(free_port()),
                                        "127.0.0.1:" + std::to_string(free_port())};
  std::vector<std::unique_ptr<Process>> relays;
};

class WireTreeMethods : public WireTree, public testing::WithParamInterface<const char*> {};

// Sums in double that are added in another order differ in their last bits, and so, after a round, may the last bit of
// what is rounded from them.
TEST_P(WireTreeMethods, GiveTheSimulationsModelToARounding) {
  settings = std::string("run.rounds=1 ") + GetParam();
  const auto server = start_server();
  start_tree();
  expect_all_well_ended(*server);
  const auto tree = numbers_of(served()), flat = numbers_of(simulated());
  ASSERT_EQ(tree.size(), flat.size());
  for (std::size_t i = 0; i < flat.size(); ++i) {
    EXPECT_LE(std::abs(tree[i] - flat[i]), std::numeric_limits<float>::epsilon() * std::abs(flat[i])) << i;
  }
  const auto there = last_metrics("served"), here = last_metrics("run");
  for (const char* key : {"clients", "steps", "examples", "epochs", "bytes_up"})
    EXPECT_EQ(there[key], here[key]) << key;
}

INSTANTIATE_TEST_SUITE_P(All, WireTreeMethods,
                         testing::Values("method.name=fedavg", "method.name=fola", "method.name=scaffold",
                                         "server.participation=0.5"));

// A relay with the eight clients of the fold's block, and one more at the server itself.
TEST_F(WireTree, GivesTheBytesOfTheSimulationWhereRelaysHaveWholeBlocks) {
  std::string text = kExperiment;
  text.replace(text.find("dirichlet"), 9, "iid");
  text.erase(text.find("alpha = 1.0\n"), 12);
  write_text(folder / "a.toml", text);
  settings = "partition.clients=9 method.name=fola";
  const auto server = start_server();
  relays.push_back(start_relay(0, "0-7"));
  for (std::size_t client = 0; client < 8; ++client) nodes.push_back(start_behind(0, client));
  nodes.push_back(start_node(8));
  expect_all_well_ended(*server);
  EXPECT_EQ(served(), simulated());
}

// A relay is a node above and a server below, each with a certificate.
TEST_F(WireTree, WorksWithCertificates) {
  ASSERT_EQ(parley(folder.path(), {"keys", "ca"}).exit_code, 0);
  ASSERT_EQ(parley(folder.path(), {"keys", "server", "--host", "127.0.0.1"}).exit_code, 0);
  for (const char* relay : {"relay-0", "relay-1"})
    ASSERT_EQ(parley(folder.path(), {"keys", "node", relay}).exit_code, 0);
  for (std::size_t client = 0; client < 8; ++client) {
    ASSERT_EQ(parley(folder.path(), {"keys", "node", "client-" + std::to_string(client)}).exit_code, 0);
  }
  security = "--keys keys";
  const auto server = start_server();
  start_tree();
  expect_all_well_ended(*server);
  EXPECT_EQ(last_metrics("served")["clients"], 8);
}

TEST_F(WireTree, GoesOnAfterKillsOfANodeARelayAndTheServer) {
  settings = std::string("method.name=scaffold run.rounds=8") + kSlowly;  // clients remember
  auto server = start_server();
  start_tree();
  ASSERT_TRUE(eventually([&] { return rounds_served() >= 1; }));
  nodes[1]->kill(SIGKILL);
  nodes[1]->wait();
  nodes[1] = start_behind(0, 1);
  relays[1]->kill(SIGKILL);
  relays[1]->wait();
  relays[1] = start_relay(1, "4-7");
  const std::size_t before = rounds_served();
  ASSERT_TRUE(eventually([&] { return rounds_served() > before; }));
  server->kill(SIGKILL);
  server->wait();
  server = start_server();
  expect_all_well_ended(*server);
  EXPECT_EQ(rounds_served(), 8u);
  const std::string model = simulated();
  std::istringstream tree(read_text(folder / "served/metrics.jsonl")), flat(read_text(folder / "run/metrics.jsonl"));
  for (std::string a, b; std::getline(tree, a) && std::getline(flat, b);) {
    const auto there = nlohmann::json::parse(a), here = nlohmann::json::parse(b);
    EXPECT_EQ(there["clients"], 8) << a;
    // A record that had been lost, or counted twice, would show in the second digit.
    EXPECT_NEAR(there["train_loss"].get<double>(), here["train_loss"].get<double>(),
                1e-3 * here["train_loss"].get<double>());
  }
}

TEST_F(WireTree, ARelayThatIsGoneIsItsClientsAbsence) {
  settings = std::string("serve.deadline=3 run.rounds=4") + kSlowly;
  const auto server = start_server();
  start_tree();
  ASSERT_TRUE(eventually([&] { return rounds_served() >= 1; }));
  relays[1]->kill(SIGKILL);
  expect_well_ended(*server);
  EXPECT_EQ(rounds_served(), 4u);
  const auto last = last_metrics("served");
  EXPECT_EQ(last["clients"], 4) << last.dump();
  EXPECT_NE(last.dump().find("client 6: no answer within 3 s"), std::string::npos) << last.dump();
}

TEST_F(WireTree, RefusesWhoDoesNotBelongThere) {
  const auto server = start_server();
  relays.push_back(start_relay(0, "0-3"));
  const auto refusal = [&](const std::vector<std::string>& arguments) {
    const Outcome outcome = parley(folder.path(), arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    return outcome.err;
  };
  const auto expect = [](const std::string& said, const std::string& words) {
    EXPECT_NE(said.find(words), std::string::npos) << said;
  };
  expect(refusal({"join", "--server", relay_address[0], "--client", "5", "--insecure"}),
         "client 5 is not one of those");
  expect(refusal({"relay", "--server", address, "--listen", "127.0.0.1:0", "--clients", "3-99", "--name", "r",
                  "--insecure"}),
         "deals no examples to a client 8");
  expect(refusal({"relay", "--server", address, "--clients", "3-x", "--name", "r", "--insecure"}), "--clients 3-x");
}

class WireTreeRefusals : public WireTree, public testing::WithParamInterface<std::pair<const char*, const char*>> {};

TEST_P(WireTreeRefusals, SayWhy) {
  settings = GetParam().first;
  const auto server = start_server();
  relays.push_back(start_relay(0, "0-3"));
  for (std::size_t client = 0; client < 4; ++client) nodes.push_back(start_behind(0, client));
  const Outcome outcome = relays[0]->wait();
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find(GetParam().second), std::string::npos) << outcome.err;
}

INSTANTIATE_TEST_SUITE_P(All, WireTreeRefusals,
                         testing::Values(std::pair{"server.rounds=buffered", "brings each late answer forward"},
                                         std::pair{"evaluate.clients=true", "asks each node for its own test"},
                                         std::pair{"server.cohort=fedcs server.round_seconds=9",
                                                   "how long each client takes"},
                                         std::pair{"method.name=fedma", "of each client, and a relay sends a sum"}));

}  // namespace
}  // namespace parley::tests
