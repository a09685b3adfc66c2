// parley keys desk, enrol and parley peer as real processes on loopback, with TLS.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "free_port.h"
#include "program.h"

namespace parley::tests {
namespace {

using namespace std::chrono_literals;

// False when it did not come true in a minute.
bool eventually(const std::function<bool()>& condition) {
  for (int tries = 0; tries < 1200; ++tries) {
    if (condition()) return true;
    std::this_thread::sleep_for(50ms);
  }
  return false;
}

class Keys : public testing::Test {
 protected:
  Outcome run(const std::string& line) const { return parley(folder.path(), words_of(line)); }
  std::string done(const std::string& line) const {
    const Outcome outcome = run(line);
    EXPECT_EQ(outcome.exit_code, 0) << line << ": " << outcome.err;
    return outcome.out;
  }
  std::unique_ptr<Process> start(const std::string& line) const {
    auto words = words_of(line);
    words.insert(words.begin(), parley_binary());
    return std::make_unique<Process>(words, folder.path());
  }

  TempFolder folder;
};

TEST_F(Keys, ANodeEnrolsWithATokenAndJoinsWithWhatItGot) {
  done("keys ca");
  done("keys server --host 127.0.0.1");
  const std::string token = done("keys token client-0");
  const std::string desk_at = "127.0.0.1:" + std::to_string(free_port());
  const auto desk = start("keys desk --listen " + desk_at);
  const std::string enrol = "keys enrol client-0 --desk " + desk_at + " --folder node --token " + token;
  Outcome enrolled;
  EXPECT_TRUE(eventually([&] { return (enrolled = run(enrol)).exit_code == 0; })) << enrolled.err;
  EXPECT_NE(enrolled.out.find("node/client-0.crt: client-0 until"), std::string::npos) << enrolled.out;
  const Outcome thief = run("keys enrol client-0 --desk " + desk_at + " --folder thief --token " + token);
  EXPECT_EQ(thief.exit_code, 2);
  EXPECT_NE(thief.err.find("does not enrol 'client-0': the token was used on"), std::string::npos) << thief.err;
  desk->kill(SIGTERM);
  const Outcome desk_outcome = desk->wait();
  EXPECT_EQ(desk_outcome.exit_code, 0) << desk_outcome.err;
  EXPECT_NE(desk_outcome.err.find("the token was used on"), std::string::npos) << desk_outcome.err;
  const std::string audit = done("audit keys");
  EXPECT_NE(audit.find("enrolled"), std::string::npos) << audit;
  EXPECT_NE(audit.find("not enrolled"), std::string::npos) << audit;
  EXPECT_NE(audit.find("the chain is whole"), std::string::npos) << audit;

  write_text(folder / "a.toml",
             "[run]\nrounds = 2\n[data]\nname = \"synthetic\"\nrows = 100\n[partition]\nkind = \"iid\"\nclients = 1\n"
             "[model]\nname = \"mlp\"\nhidden = [4]\n");
  const std::string address = "127.0.0.1:" + std::to_string(free_port());
  const auto server = start("serve a.toml --out served --keys keys --listen " + address);
  const auto node = start("join --client 0 --keys node --server " + address);
  EXPECT_EQ(server->wait().exit_code, 0);
  EXPECT_EQ(node->wait().exit_code, 0);
}

constexpr std::size_t kPeers = 5;
constexpr const char* kExperiment = R"(
[run]
rounds = 15
[data]
name = "synthetic"
rows = 400
features = 8
classes = 4
[partition]
kind = "dirichlet"
clients = 5
alpha = 1.0
[model]
name = "mlp"
hidden = [6]
[client]
batch = 10
lr = 0.05
[method]
name = "mm"
)";

// Visits of some tenths of a second, so that something can happen in them.
constexpr const char* kSlowly = " client.epochs=600 data.rows=2000 model.hidden=[32]";

class Peers : public Keys {
 protected:
  Peers() {
    write_text(folder / "a.toml", kExperiment);
    done("keys ca");
    std::set<int> ports;
    while (ports.size() < kPeers) ports.insert(free_port());
    std::string list = "# one a line\n";
    for (std::size_t k = 0; k < kPeers; ++k) {
      done("keys node " + name(k) + " --host 127.0.0.1");
      list += name(k) + " 127.0.0.1:" + std::to_string(*std::next(ports.begin(), static_cast<long>(k))) + "\n";
    }
    write_text(folder / "peers.txt", list);
  }
  static std::string name(std::size_t k) { return "peer-" + std::to_string(k); }
  std::string with_settings(std::string line) const {
    for (const auto& word : words_of(settings)) line += " --set " + word;
    return line;
  }
  std::unique_ptr<Process> start_peer(std::size_t k, const std::string& keys = "keys") const {
    return start(with_settings("peer a.toml --name " + name(k) + " --peers peers.txt --keys " + keys + " --out " +
                               name(k) + " " + options));
  }
  void start_peers() {
    for (std::size_t k = 0; k < kPeers; ++k) peers.push_back(start_peer(k));
  }
  std::string simulated() const {
    done(with_settings("run a.toml --out run --threads 1"));
    return read_text(folder / "run/model.safetensors");
  }
  std::string model(std::size_t k) const { return read_text(folder / name(k) / "model.safetensors"); }
  // Where the first model stands at a peer: "held move 3".
  nlohmann::json note(std::size_t k) const {
    const auto file = folder / name(k) / "models/0.json";
    if (!std::filesystem::exists(file)) return {{"standing", "absent"}, {"moves", 0}};
    return nlohmann::json::parse(read_text(file));
  }
  std::optional<std::size_t> holder() const {
    for (std::size_t k = 0; k < kPeers; ++k) {
      if (note(k)["standing"] == "held" && note(k)["moves"] > 0) return k;
    }
    return {};
  }
  bool idle(std::size_t k) const { return note(k)["standing"] == "gone" || note(k)["standing"] == "absent"; }
  void expect_well_ended(std::size_t k) {
    const Outcome outcome = peers[k]->wait();
    EXPECT_EQ(outcome.exit_code, 0) << name(k) << ": " << outcome.err;
  }

  void kill_and_await(std::size_t k) {
    peers[k]->kill(SIGKILL);
    peers[k]->wait();
  }
  // What a peer wrote down, a line each.
  std::vector<nlohmann::json> lines(std::size_t k, const std::string& file) const {
    std::vector<nlohmann::json> result;
    if (!std::filesystem::exists(folder / name(k) / file)) return result;
    std::istringstream text(read_text(folder / name(k) / file));
    for (std::string line; std::getline(text, line);) result.push_back(nlohmann::json::parse(line));
    return result;
  }

  std::string settings, options;
  std::vector<std::unique_ptr<Process>> peers;
};

class PeerMethods : public Peers, public testing::WithParamInterface<const char*> {};

TEST_P(PeerMethods, GiveTheSimulationsModelBitForBitAtEveryPeer) {
  settings = GetParam();
  start_peers();
  for (std::size_t k = 0; k < kPeers; ++k) expect_well_ended(k);
  const std::string expected = simulated();
  for (std::size_t k = 0; k < kPeers; ++k) EXPECT_TRUE(model(k) == expected) << name(k);
  EXPECT_NE(done("audit " + name(0)).find("the chain is whole"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, PeerMethods,
                         testing::Values("method.name=mm", "method.name=mm method.buffer=3 method.route=fresh",
                                         "method.name=mm method.route=random graph.kind=ring server.step=adam",
                                         "method.name=smm method.flip=0.1", "method.name=cyclic", "method.name=dpsgd",
                                         "method.name=dpsgd graph.kind=ring method.mix=before"));

TEST_F(Peers, SeveralModelsTravelAndEveryPeerEndsWithAll) {
  settings = "method.models=2 run.rounds=6";
  start_peers();
  for (std::size_t k = 0; k < kPeers; ++k) expect_well_ended(k);
  for (std::size_t k = 1; k < kPeers; ++k) EXPECT_TRUE(model(k) == model(0)) << name(k);
  EXPECT_NE(model(0).find("model1"), std::string::npos);
}

TEST_F(Peers, GoOnWithoutAKilledOneThatDoesNotHoldTheModel) {
  settings = std::string("run.rounds=25") + kSlowly;
  start_peers();
  std::size_t victim = 0;
  ASSERT_TRUE(eventually([&] {
    const auto at = holder();
    if (!at) return false;
    victim = (*at + 1) % kPeers;
    if (!idle(victim)) return false;
    kill_and_await(victim);
    if (idle(victim)) return true;
    peers[victim] = start_peer(victim);  // it had just got it
    return false;
  }));
  std::string passed;
  for (std::size_t k = 0; k < kPeers; ++k) {
    if (k == victim) continue;
    expect_well_ended(k);
    passed += done("audit " + name(k));
    EXPECT_TRUE(model(k) == model(victim == 0 ? 1 : 0));
  }
  EXPECT_NE(passed.find("passed over"), std::string::npos);
  // Who comes late hears it from one that is started again.
  peers[victim] = start_peer(victim);
  const std::size_t other = victim == 0 ? 1 : 0;
  peers[other] = start_peer(other);
  expect_well_ended(victim);
  EXPECT_TRUE(model(victim) == model(other));
}

TEST_F(Peers, AKilledHolderGoesOnFromItsFolderWithTheSameBytes) {
  settings = std::string("run.rounds=20") + kSlowly;
  start_peers();
  for (std::size_t kill = 1; kill <= 3; ++kill) {
    std::optional<std::size_t> at;
    ASSERT_TRUE(eventually([&] { return (at = holder()) && note(*at)["moves"] > 4 * kill; }));
    kill_and_await(*at);
    std::this_thread::sleep_for(300ms);
    peers[*at] = start_peer(*at);
  }
  for (std::size_t k = 0; k < kPeers; ++k) expect_well_ended(k);
  const std::string expected = simulated();
  for (std::size_t k = 0; k < kPeers; ++k) EXPECT_TRUE(model(k) == expected) << name(k);
}

// Whoever is killed when: the model is neither lost nor doubled. Its route may be another, past who was dead.
TEST_F(Peers, KillsAtRandomNeitherLoseNorDoubleAModel) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 dice(seed);
  settings = std::string("run.rounds=40") + kSlowly;
  start_peers();
  for (int kill = 0; kill < 15; ++kill) {
    std::this_thread::sleep_for(std::chrono::milliseconds(dice() % 500));
    const std::size_t victim = dice() % kPeers;
    kill_and_await(victim);
    peers[victim] = start_peer(victim);
  }
  std::set<std::size_t> moves;
  for (std::size_t k = 0; k < kPeers; ++k) {
    expect_well_ended(k);
    EXPECT_TRUE(model(k) == model(0)) << name(k);
    for (const auto& visit : lines(k, "visits.jsonl")) {
      EXPECT_TRUE(moves.insert(visit["move"].get<std::size_t>()).second) << visit;
    }
  }
  EXPECT_EQ(*moves.rbegin(), 40u);
}

TEST_F(Peers, AnOldCopyOfAFolderIsSeenToBeStale) {
  settings = std::string("run.rounds=20") + kSlowly;
  start_peers();
  std::optional<std::size_t> at;
  ASSERT_TRUE(eventually([&] { return (at = holder()).has_value(); }));
  kill_and_await(*at);
  ASSERT_EQ(note(*at)["standing"], "held");
  std::filesystem::copy(folder / name(*at), folder / "copy", std::filesystem::copy_options::recursive);
  peers[*at] = start_peer(*at);
  ASSERT_TRUE(eventually([&] { return note(*at)["standing"] == "gone"; }));
  kill_and_await(*at);
  std::filesystem::remove_all(folder / name(*at));
  std::filesystem::rename(folder / "copy", folder / name(*at));
  peers[*at] = start_peer(*at);
  for (std::size_t k = 0; k < kPeers; ++k) expect_well_ended(k);
  const std::string audit = done("audit " + name(*at));
  EXPECT_NE(audit.find("what this folder held of it is dropped"), std::string::npos) << audit;
  for (std::size_t k = 1; k < kPeers; ++k) EXPECT_TRUE(model(k) == model(0)) << name(k);
}

TEST_F(Peers, ACertificateOfAnotherFederationIsNotLetIn) {
  for (const char* line : {"keys ca --folder strange", "keys node peer-4 --host 127.0.0.1 --folder strange"})
    done(line);
  for (std::size_t k = 0; k < kPeers; ++k) peers.push_back(start_peer(k, k == 4 ? "strange" : "keys"));
  std::this_thread::sleep_for(4s);
  std::string said;
  for (std::size_t k = 0; k < kPeers; ++k) {
    EXPECT_TRUE(peers[k]->running()) << name(k);  // they wait for the one that is missing
    EXPECT_EQ(note(k)["standing"], "absent") << name(k);
    peers[k]->kill(SIGTERM);
    const Outcome outcome = peers[k]->wait();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    said += outcome.err;
  }
  EXPECT_NE(said.find("cannot be reached"), std::string::npos) << said;
}

TEST_F(Peers, ARevokedPeerGetsNoModel) {
  simulated();
  std::istringstream lines(read_text(folder / "run/metrics.jsonl"));
  std::string line;
  std::getline(lines, line);
  const auto first = nlohmann::json::parse(line)["visits"][0]["node"].get<std::size_t>();
  const std::size_t outcast = (first + 1) % kPeers;
  std::filesystem::copy(folder / "keys", folder / "outcast");  // which has not heard of it
  done("keys revoke " + name(outcast));
  for (std::size_t k = 0; k < kPeers; ++k) peers.push_back(start_peer(k, k == outcast ? "outcast" : "keys"));
  std::string audits;
  for (std::size_t k = 0; k < kPeers; ++k) {
    if (k == outcast) continue;
    expect_well_ended(k);
    audits += done("audit " + name(k));
  }
  EXPECT_NE(audits.find("its certificate was revoked"), std::string::npos) << audits;
  EXPECT_TRUE(idle(outcast));
}

TEST_F(Peers, OtherSettingsAreRefusedWithTheReasonAtBothEnds) {
  for (std::size_t k = 0; k < kPeers; ++k) {
    settings = k == 4 ? "client.lr=0.01" : "";
    peers.push_back(start_peer(k));
  }
  // Where the model starts, all others are greeted.
  std::size_t first = kPeers;
  ASSERT_TRUE(eventually([&] {
    for (first = 0; first < kPeers && peers[first]->running();) ++first;
    return first < kPeers;
  }));
  const Outcome outcome = peers[first]->wait();
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("it runs another experiment, or has another list of peers"), std::string::npos)
      << outcome.err;
  std::string audits;
  for (std::size_t k = 0; k < kPeers; ++k) audits += done("audit " + name(k));
  EXPECT_NE(audits.find("it runs another experiment"), std::string::npos) << audits;
}

// --- Models that stay at home ---

// All peers train at once here.
constexpr const char* kBriskly = " client.epochs=150 data.rows=2000 model.hidden=[32]";

class Residents : public Peers {
 protected:
  std::vector<nlohmann::json> trainings(std::size_t k) const { return lines(k, "trainings.jsonl"); }
  void expect_all_end_with_one_model() {
    for (std::size_t k = 0; k < kPeers; ++k) expect_well_ended(k);
    for (std::size_t k = 1; k < kPeers; ++k) EXPECT_TRUE(model(k) == model(0)) << name(k);
  }
};

TEST_F(Residents, OfDpsgdGoOnAfterKillsWithTheSameBytes) {
  settings = std::string("method.name=dpsgd graph.kind=ring run.rounds=12") + kBriskly;
  start_peers();
  std::mt19937 dice(std::random_device{}());
  for (std::size_t kill = 1; kill <= 6; ++kill) {
    const std::size_t victim = dice() % kPeers;
    ASSERT_TRUE(eventually([&] { return trainings(victim).size() >= kill; }));
    kill_and_await(victim);
    std::this_thread::sleep_for(std::chrono::milliseconds(dice() % 1000));
    peers[victim] = start_peer(victim);
  }
  for (std::size_t k = 0; k < kPeers; ++k) expect_well_ended(k);
  const std::string expected = simulated();
  for (std::size_t k = 0; k < kPeers; ++k) EXPECT_TRUE(model(k) == expected) << name(k);
}

TEST_F(Residents, OfDpsgdPassOverADeadOneAndTakeItInAgain) {
  settings = std::string("method.name=dpsgd run.rounds=40") + kBriskly;
  options = "--patience 1";
  start_peers();
  ASSERT_TRUE(eventually([&] { return trainings(3).size() >= 2; }));
  kill_and_await(3);
  const std::size_t before = trainings(3).size();
  ASSERT_TRUE(eventually([&] { return trainings(0).size() >= before + 4; }));  // they go on without it
  peers[3] = start_peer(3);
  expect_all_end_with_one_model();
  EXPECT_NE(done("audit " + name(3)).find("took over"), std::string::npos);
  const auto first = trainings(0);
  EXPECT_NE(done("audit " + name(0)).find("passed over"), std::string::npos);
  const auto without = std::ranges::count_if(first, [](const auto& line) { return line["mixed"].size() == 3; });
  EXPECT_GE(without, 3);
  EXPECT_EQ(first.back()["mixed"].size(), 4u);  // it is back
  EXPECT_LT(trainings(3).size(), 40u);
  EXPECT_EQ(first.back()["round"], 40);
}

TEST_F(Residents, WhoWasAwayAtTheEndHearsItFromOneThatIsStartedAgain) {
  settings = "method.name=dpsgd run.rounds=4 client.epochs=100";
  options = "--patience 1";
  start_peers();
  ASSERT_TRUE(eventually([&] { return trainings(4).size() >= 1; }));
  kill_and_await(4);
  for (std::size_t k = 0; k < 4; ++k) expect_well_ended(k);
  peers[4] = start_peer(4);
  std::this_thread::sleep_for(2s);
  EXPECT_TRUE(peers[4]->running());  // nobody goes on alone
  peers[0] = start_peer(0);
  expect_well_ended(4);
  expect_well_ended(0);
  EXPECT_TRUE(model(4) == model(0));
}

TEST_F(Residents, OfGossipTrainAsOftenAsTheyShouldWhoeverIsKilled) {
  settings = "method.name=gossip method.period=0.1 run.rounds=10 client.epochs=20";
  options = "--patience 3";
  start_peers();
  std::mt19937 dice(std::random_device{}());
  for (int kill = 0; kill < 6; ++kill) {
    std::this_thread::sleep_for(std::chrono::milliseconds(dice() % 400));
    const std::size_t victim = dice() % kPeers;
    kill_and_await(victim);
    peers[victim] = start_peer(victim);
  }
  expect_all_end_with_one_model();
  std::size_t merged = 0;
  for (std::size_t k = 0; k < kPeers; ++k) {
    const auto all = trainings(k);
    std::set<std::size_t> numbers;
    for (const auto& line : all) {
      EXPECT_TRUE(numbers.insert(line["training"].get<std::size_t>()).second) << line;
      if (!line.contains("from")) continue;
      ++merged;
      EXPECT_GE(line["age"], line["their_age"]) << line;
    }
    ASSERT_FALSE(all.empty());
    EXPECT_EQ(*numbers.rbegin(), 10u);
    EXPECT_GE(numbers.size(), 9u);  // a kill can come between the weights and the line
  }
  EXPECT_GT(merged, 25u);
}

TEST_F(Residents, OfGossipLearn) {
  settings = "method.name=gossip method.period=0.05 run.rounds=20 client.epochs=5";
  start_peers();
  expect_all_end_with_one_model();
  double sum = 0.0;
  for (std::size_t k = 0; k < kPeers; ++k) sum += trainings(k).back()["accuracy"].get<double>();
  EXPECT_GT(sum / kPeers, 0.5);  // a quarter is chance
}

// Three clinics with a file each, none of which the others can read.
class OwnData : public Peers {
 protected:
  OwnData() {
    std::istringstream lines(read_text(folder / "peers.txt"));
    std::string list, line;
    std::getline(lines, line);
    for (std::size_t k = 0; k < 3 && std::getline(lines, line); ++k) {
      std::string rows = "label,x,y\n";
      for (std::size_t i = 0; i < 40 + 10 * k; ++i) {
        rows += std::to_string(i % 3) + "," +
                std::to_string(static_cast<double>(i % 3) + 0.01 * static_cast<double>(k)) + "," +
                std::to_string(0.1 * static_cast<double>(i % 7)) + "\n";
      }
      write_text(folder / (name(k) + ".csv"), rows);
      list += line + " " + std::to_string((40 + 10 * k) * 9 / 10) + "\n";  // a tenth is for tests
    }
    write_text(folder / "peers.txt", list);
    write_text(
        folder / "a.toml",
        "[run]\nrounds = 12\n[data]\nname = \"csv\"\nlabel = \"label\"\nclasses = 3\nnormalize = \"none\"\n"
        "test_fraction = 0.1\n[model]\nname = \"mlp\"\nhidden = [4]\n[client]\nlr = 0.1\nepochs = 30\n[method]\nname = "
        "\"mm\"\nbuffer = 2\n");
  }
  std::unique_ptr<Process> start_peer(std::size_t k) const {
    return start("peer a.toml --name " + name(k) + " --peers peers.txt --keys keys --out " + name(k) +
                 " --data path=" + name(k) + ".csv");
  }
};

TEST_F(OwnData, OfEachPeerTrainsAModelThatTravels) {
  for (std::size_t k = 0; k < 3; ++k) peers.push_back(start_peer(k));
  for (std::size_t k = 0; k < 3; ++k) expect_well_ended(k);
  for (std::size_t k = 1; k < 3; ++k) EXPECT_TRUE(model(k) == model(0)) << name(k);
  std::size_t visits = 0;
  double last = 0.0;
  for (std::size_t k = 0; k < 3; ++k) {
    for (const auto& visit : lines(k, "visits.jsonl")) {
      ++visits;
      last = std::max(last, visit["after"].get<double>());
    }
  }
  EXPECT_EQ(visits, 12u);
  EXPECT_GT(last, 0.5);  // a third is chance
}

TEST_F(OwnData, MustBeWhatTheListSays) {
  const auto refusal = [&](const std::string& more) {
    const Outcome outcome = run("peer a.toml --peers peers.txt --keys keys --name peer-0 --data path=" + more);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    return outcome.err;
  };
  EXPECT_NE(refusal("peer-1.csv").find("'peer-0' holds 36 training examples, and its data have 45"), std::string::npos);
  EXPECT_NE(refusal("peer-0.csv --data normalize=standard").find("nobody measures the scales"), std::string::npos);
}

TEST_F(Peers, RefuseWhatTheyCannotRun) {
  const auto refusal = [&](const std::string& more, const std::string& name = "peer-0") {
    const Outcome outcome = run("peer a.toml --peers peers.txt --keys keys --name " + name + " " + more);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    return outcome.err;
  };
  EXPECT_NE(refusal("", "nobody").find("unknown peer 'nobody'"), std::string::npos);
  EXPECT_NE(refusal("--set method.name=fedavg").find("this method has a server"), std::string::npos);
  EXPECT_NE(
      refusal("--set method.name=gossip --set peer.visits=3 --set run.rounds=4").find("shared equally by 5 peers"),
      std::string::npos);
  EXPECT_NE(refusal("--set peer.failures=0.2").find("real peers die and come by themselves"), std::string::npos);
  EXPECT_NE(refusal("--set partition.clients=4").find("names 5 peers, and the experiment has 4 clients"),
            std::string::npos);
  write_text(folder / "peers.txt", "peer-0\n");
  EXPECT_NE(refusal("").find("line 1: expected NAME HOST:PORT"), std::string::npos);
  write_text(folder / "peers.txt", "peer-0 127.0.0.1:1 3\npeer-1 127.0.0.1:2\n");
  EXPECT_NE(refusal("").find("line 2: either all peers have a number of examples, or none"), std::string::npos);
}

}  // namespace
}  // namespace parley::tests
