// The promises of the design, on a small federation: same bits, resume, refusals by name.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <numeric>
#include <sstream>
#include <thread>

#include "parley/base/errors.h"
#include "parley/base/pool.h"
#include "parley/base/temp_folder.h"
#include "parley/engine/cohort.h"
#include "parley/engine/federation.h"
#include "parley/engine/run.h"
#include "parley/engine/study.h"
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
clients = 23
alpha = 0.3
[model]
name = "mlp"
hidden = [16]
dropout = 0.2
[client]
batch = 8
lr = 0.1
[server]
participation = 0.7
)";

Settings settings(const std::vector<std::string>& assignments = {}) {
  return settings_of(kSmall, assignments);
}

Experiment experiment(const std::vector<std::string>& assignments = {}) {
  return experiment_of(kSmall, assignments);
}

std::string model_bytes(const std::filesystem::path& folder) {
  return read_file(folder / "model.safetensors");
}

std::string message_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// "name" or "name key=value …": every registered method, and variants that take another path through their code.
std::vector<std::string> methods_and_variants() {
  std::vector<std::string> all = methods().names();
  std::ranges::replace(all, "virtual", "virtual model.dropout=0");
  for (const char* name : {"fedbn", "fedec"}) std::ranges::replace(all, name, name + std::string(" model.name=normed"));
  std::ranges::replace(all, "rnn_aggregator", "rnn_aggregator server.examples=20");
  all.insert(all.end(),
             {"fedavg server.step=adam", "fedavg model.name=normed aggregate.running_var=mixture",
              "fedec model.name=normed method.decoder=mlp method.bn_variance=literal",
              "fola method.curvature=input method.lambda=1",
              "fola method.curvature=kfac method.lambda=1 method.rank=4 method.prior_rank=3",
              "fola method.gradient=per_sample method.lambda=0.5 method.compress=0.3",
              "fola method.aggregation=mixture", "fedavg client.optimizer=adam client.state=central client.lr=0.01",
              "fedcurv client.optimizer=momentum client.state=worker client.lr=0.01",
              "mm method.models=3 method.buffer=2 peer.visits=7 network.speed_spread=1 peer.failures=0.3",
              "smm method.models=2 peer.visits=5 graph.kind=small_world method.flip=0.2",
              "cyclic peer.visits=5 server.step=adam server.lr=0.01",
              "dpsgd graph.kind=regular peer.failures=0.2 peer.arrivals=0.2 peer.horizon=1",
              "gossip graph.kind=regular peer.visits=20 network.speed_spread=2 network.bandwidth=1000",
              "virtual model.dropout=0 method.prune=0.5 method.draws=2 client.optimizer=momentum client.state=worker",
              "virtual model.dropout=0 method.private=false method.fedavg_init=false method.beta=0.1"});

  return all;
}

class EveryMethod : public testing::TestWithParam<std::string> {
 protected:
  static std::vector<std::string> method() {
    std::istringstream words("method.name=" + GetParam());
    return {std::istream_iterator<std::string>(words), {}};
  }
};

TEST_P(EveryMethod, SameBytesForAnyNumberOfThreads) {
  const TempFolder temp;
  const Experiment one = experiment(method());
  for (const std::size_t threads : {1, 2, 5}) {
    run_experiment(one, temp / std::to_string(threads), {.threads = threads});
  }
  EXPECT_TRUE(model_bytes(temp / "1") == model_bytes(temp / "2"));
  EXPECT_TRUE(model_bytes(temp / "1") == model_bytes(temp / "5"));
}

// Stops a run in the middle of a round, as a kill would: nothing of that round may survive.
class StopInRound final : public Progress {
 public:
  explicit StopInRound(std::size_t round) : round_(round) {}
  void started(std::size_t round, std::size_t) override { current_ = round; }
  void client_done(std::size_t finished, std::size_t cohort) override {
    if (current_ == round_ && finished == std::min<std::size_t>(3, cohort)) throw std::runtime_error("killed");
  }

 private:
  std::size_t round_;
  std::atomic<std::size_t> current_ = 0;
};

TEST_P(EveryMethod, KilledAndResumedGivesTheSameBytes) {
  for (const char* keep : {"memory", "disk"}) {
    const TempFolder temp;
    auto assignments = method();
    assignments.push_back(std::string("store.clients=") + keep);
    const Experiment one = experiment(assignments);
    run_experiment(one, temp / "straight", {.threads = 2});
    StopInRound stop(3);
    // With a checkpoint of every round, and with one of the first only, since these rounds take no second.
    for (const bool every : {true, false}) {
      const RunControls cut{.threads = 2, .save_every_round = every, .progress = &stop};
      EXPECT_THROW(run_experiment(one, temp / "cut", cut), std::runtime_error);
      const auto summary = run_experiment(one, temp / "cut", {.threads = 1, .resume = true});
      EXPECT_EQ(summary.resumed_from, every ? 2u : 1u);
      EXPECT_EQ(summary.metrics.size(), 4u);
      EXPECT_TRUE(model_bytes(temp / "straight") == model_bytes(temp / "cut")) << keep;
    }
  }
}

TEST(Engine, CheckpointsAreAsFarApartAsAskedFor) {
  for (const auto& [seconds, kept] : {std::pair{"0", 2u}, {"3600", 1u}}) {
    const TempFolder temp;
    const Experiment one = experiment({std::string("run.checkpoint_seconds=") + seconds});
    StopInRound stop(3);
    EXPECT_THROW(run_experiment(one, temp / "cut", {.progress = &stop}), std::runtime_error);
    EXPECT_EQ(run_experiment(one, temp / "cut", {.resume = true}).resumed_from, kept) << seconds;
  }
}

TEST_P(EveryMethod, ALongerRunGoesOnWhereAShorterOneEnded) {
  const TempFolder temp;
  auto assignments = method();
  run_experiment(experiment(assignments), temp / "long", {.threads = 2});
  assignments.push_back("run.rounds=2");
  run_experiment(experiment(assignments), temp / "grown", {.threads = 2});
  assignments.back() = "run.rounds=4";
  run_experiment(experiment(assignments), temp / "grown", {.threads = 2, .resume = true});
  EXPECT_TRUE(model_bytes(temp / "long") == model_bytes(temp / "grown"));
}

INSTANTIATE_TEST_SUITE_P(Engine, EveryMethod, testing::ValuesIn(methods_and_variants()), [](const auto& test) {
  std::string name = test.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

TEST(Engine, LearnsSomething) {
  const TempFolder temp;
  const auto summary = run_experiment(experiment({"run.rounds=15"}), temp / "run", {.threads = 2});
  EXPECT_GT(summary.metrics.back()["test_accuracy"].get<double>(), 0.8);
  EXPECT_LT(summary.metrics.back()["test_loss"].get<double>(), summary.metrics.front()["test_loss"].get<double>());
}

TEST(Engine, CountsWhatItDoes) {
  const Experiment one = experiment({"server.participation=1", "client.epochs=2"});
  ClientStore store(ClientStore::Keep::memory, {}, real_files());
  Federation federation(one, store, 2);
  const RoundReport report = federation.round(1);
  std::size_t holders = 0, steps = 0;
  for (const auto& rows : one.federated.partition.clients) {
    holders += rows.empty() ? 0 : 1;
    steps += 2 * ((rows.size() + 7) / 8);
  }
  const std::size_t rows = one.federated.data.train->size();
  EXPECT_EQ(report.clients, holders);
  EXPECT_EQ(report.examples, 2 * rows);
  EXPECT_EQ(report.steps, steps);
  const State start = starting_state(one.server_setup());
  EXPECT_EQ(report.bytes_down, holders * Broadcast(start, 1).encode().size());
  EXPECT_EQ(report.bytes_up, holders * Update(share(one.method->schema())).encode().size());
  EXPECT_LT(report.bytes_up, holders * (one.layout->size() * 4 + 100));
  EXPECT_EQ(report.transmissions, 2 * holders);
  EXPECT_DOUBLE_EQ(report.epochs, 2.0 * static_cast<double>(holders));
}

TEST(Engine, ARoundTakesAsLongAsItsSlowestClient) {
  const auto seconds = [](const std::vector<std::string>& more) {
    std::vector<std::string> settings{"server.participation=1", "network.step_seconds=2", "network.delay=3",
                                      "network.bandwidth=100"};
    settings.insert(settings.end(), more.begin(), more.end());
    const Experiment one = experiment(settings);
    ClientStore store(ClientStore::Keep::memory, {}, real_files());
    return Federation(one, store, 2).round(1).simulated_seconds;
  };
  const Experiment one = experiment();
  std::size_t most = 0;
  for (const auto& rows : one.federated.partition.clients) most = std::max(most, (rows.size() + 7) / 8);
  const std::size_t down = Broadcast(starting_state(one.server_setup()), 1).wire_bytes();
  const std::size_t up = Update(share(one.method->schema())).wire_bytes();
  const double even = 2 * 3 + 2.0 * static_cast<double>(most) + static_cast<double>(down + up) / 100;
  EXPECT_NEAR(seconds({}), even, 1e-9);
  EXPECT_GT(seconds({"network.link_spread=1"}), even);  // 23 links, so some are slower than ordinary
}

TEST(Engine, AMethodThatIsFinishedEndsTheRunWithAnEvaluation) {
  const TempFolder temp;
  const auto one = experiment({"method.name=fne", "method.patience=3", "method.chance=0", "method.population=12",
                               "method.parents=4", "run.rounds=400", "evaluate.every=1000", "server.examples=50"});
  const auto summary = run_experiment(one, temp / "run", {.threads = 2});
  EXPECT_LT(summary.metrics.size(), 400u);
  EXPECT_TRUE(summary.metrics.back().contains("test_accuracy"));
  const auto again = run_experiment(one, temp / "run", {.threads = 2, .resume = true});
  EXPECT_EQ(again.metrics.size(), summary.metrics.size()) << "it has nothing to gain from one more round either";
}

TEST(Engine, ADivergedClientIsRefusedByNameAndTheRoundGoesOn) {
  // Client 1's labels are fine, but its features explode: its loss leaves the numbers at the first step.
  Experiment one = experiment({"partition.alpha=100", "partition.clients=4", "server.participation=1"});
  set_first_feature(one, 1, 1e38f);
  const TempFolder temp;
  const auto summary = run_experiment(one, temp / "run", {.threads = 2});
  ASSERT_EQ(summary.metrics.size(), 4u);
  for (const auto& line : summary.metrics) {
    EXPECT_EQ(line["clients"], 3u);
    ASSERT_EQ(line["refused"].size(), 1u);
    EXPECT_TRUE(line["refused"][0].get<std::string>().starts_with("client 1: diverged: "));
  }
}

TEST(Engine, TooManyDivergedClientsStopTheRunAndSayWho) {
  const TempFolder temp;
  const Experiment one = experiment({"client.lr=1e30"});
  const std::string message = message_of([&] { run_experiment(one, temp / "run", {.threads = 2}); });
  EXPECT_NE(message.find("clients were accepted, and server.min_clients asks for 8; client "), std::string::npos)
      << message;
  EXPECT_EQ((*RunFolder::read_info(temp / "run"))["state"], "failed");
}

TEST(Engine, AFullDiskStopsTheRunWithOneClearError) {
  const TempFolder temp;
  const Experiment one = experiment();
  LimitedFiles full(9000);  // enough for the config and a few rounds
  const std::string message = message_of([&] { run_experiment(one, temp / "run", {.threads = 1, .files = &full}); });
  EXPECT_NE(message.find("No space left on device; free some space and run again with --resume"), std::string::npos)
      << message;
  // With space again the run goes on, and nothing is lost or doubled.
  const auto summary = run_experiment(one, temp / "run", {.threads = 1, .resume = true});
  EXPECT_GT(summary.resumed_from, 0u);
  run_experiment(one, temp / "straight", {.threads = 1});
  EXPECT_TRUE(model_bytes(temp / "run") == model_bytes(temp / "straight"));
}

TEST(Engine, ResumeRefusesOtherSettingsAndChangesNothing) {
  const TempFolder temp;
  run_experiment(experiment(), temp / "run", {});
  const std::string before = model_bytes(temp / "run");
  const std::string message =
      message_of([&] { run_experiment(experiment({"client.lr=0.2"}), temp / "run", {.resume = true}); });
  EXPECT_NE(message.find("[client]: lr = 0.1, here lr = 0.2"), std::string::npos) << message;
  EXPECT_EQ(model_bytes(temp / "run"), before);
}

TEST(Engine, AClientWhoseRecordIsMissingStartsAfreshWithANote) {
  for (const char* keep : {"memory", "disk"}) {
    const TempFolder temp;
    const std::vector<std::string> virtual_run{"method.name=virtual", "model.dropout=0", "server.participation=1",
                                               std::string("store.clients=") + keep};
    auto shorter = virtual_run;
    shorter.push_back("run.rounds=3");
    const auto before = run_experiment(experiment(shorter), temp / "run", {});
    EXPECT_EQ(before.metrics.back().at("private_started"), 0.0);
    ASSERT_EQ(std::filesystem::remove(temp / "run" / "checkpoint" / "clients" / "1.3.safetensors"), true);
    const auto after = run_experiment(experiment(virtual_run), temp / "run", {.resume = true});
    ASSERT_EQ(after.metrics.size(), 4u);
    EXPECT_FALSE(after.metrics[2].contains("notes"));
    EXPECT_EQ(after.metrics[3].at("notes"),
              Json({"client 1: what it remembered is missing from the checkpoint; it starts afresh"}));
    EXPECT_EQ(after.metrics[3].at("private_started"), 1.0);
  }
}

TEST(Engine, RecordsOfASiblingRunAreRefused) {
  for (const std::string method : {"virtual", "ditto", "scaffold"}) {
    const TempFolder temp;
    const std::vector<std::string> ours{"method.name=" + method, "model.dropout=0", "server.participation=1"};
    auto theirs = ours;
    theirs.push_back("client.lr=0.05");
    const auto records = std::filesystem::path("checkpoint") / "clients";
    run_experiment(experiment(ours), temp / "ours", {});
    run_experiment(experiment(theirs), temp / "theirs", {});
    std::filesystem::copy(temp / "theirs" / records, temp / "ours" / records,
                          std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
    auto longer = ours;
    longer.push_back("run.rounds=5");
    const std::string message =
        message_of([&] { run_experiment(experiment(longer), temp / "ours", {.resume = true}); });
    EXPECT_NE(message.find("what this client remembers is of another run"), std::string::npos) << method << message;
  }
}

TEST(Engine, ACorruptedCheckpointIsRefusedAndNothingChanges) {
  const TempFolder temp;
  const Experiment one = experiment();
  run_experiment(one, temp / "run", {});
  const std::string metrics = read_file(temp / "run" / "metrics.jsonl");
  const auto state = temp / "run" / "checkpoint" / "state.4.safetensors";
  std::string bytes = read_file(state);
  bytes.resize(bytes.size() / 2);
  real_files().replace(state, bytes);
  EXPECT_THROW(run_experiment(one, temp / "run", {.resume = true}), InputError);
  EXPECT_EQ(read_file(temp / "run" / "metrics.jsonl"), metrics);
  EXPECT_EQ((*RunFolder::read_info(temp / "run"))["state"], "done");
}

TEST(Engine, AnInitFileOfTheWrongShapeIsRefused) {
  const TempFolder temp;
  run_experiment(experiment(), temp / "run", {});
  const std::string init = "model.init=" + (temp / "run" / "model.safetensors").string();
  EXPECT_NO_THROW(experiment({init}));
  const std::string message = message_of([&] { experiment({init, "model.hidden=[17]"}); });
  EXPECT_NE(message.find("tensor 'fc1.weight' has shape [16, 12]; the model expects [17, 12]"), std::string::npos)
      << message;
}

TEST(Engine, TheResolvedConfigRunsAgain) {
  const Settings first =
      settings({"method.name=fedprox", "method.mu=0.5", "stages.use=[\"clip\"]", "stages.clip_norm=2"});
  const Settings second = resolve(Config::parse(first.to_toml()), catalogue());
  EXPECT_EQ(first.to_toml(), second.to_toml());
}

TEST(Experiment, TheServersOwnExamplesAreTakenFromTheClients) {
  const Experiment all = experiment(), some = experiment({"server.examples=50"});
  const auto& rows = some.federated.server_rows;
  EXPECT_EQ(rows.size(), 50u);
  EXPECT_EQ(some.federated.partition.examples(), all.federated.partition.examples() - 50);
  for (const auto& held : some.federated.partition.clients) {
    for (const auto row : held) EXPECT_FALSE(std::ranges::binary_search(rows, row)) << row;
  }
  EXPECT_EQ(message_of([] { experiment({"server.examples=600"}); }),
            "server.examples = 600: the clients hold 600 examples together; expected fewer");
  EXPECT_NE(message_of([] { experiment({"method.name=rnn_aggregator"}); }).find("server.examples = 0"),
            std::string::npos);
}

TEST(Settings, MethodTablesServeAComparison) {
  const char* text = "[data]\nname = \"synthetic\"\n[method]\nname = \"fedavg\"\n[method.fedprox]\nmu = 0.7\n";
  Config config = Config::parse(text, "f.toml");
  EXPECT_FALSE(resolve(config, catalogue()).method.has("mu"));
  config.set("method.name=fedprox");
  EXPECT_EQ(resolve(config, catalogue()).method.real("mu"), 0.7);
  config.set("method.fedprox.nu=1");
  EXPECT_NE(message_of([&] {
              resolve(config, catalogue());
            }).find("unknown key 'method.fedprox.nu'; did you mean 'method.fedprox.mu'"),
            std::string::npos);
}

TEST(Settings, RefusalsSuggestTheNearestName) {
  EXPECT_NE(
      message_of([] { settings({"method.name=fedavgg"}); }).find("unknown method 'fedavgg'; did you mean 'fedavg'?"),
      std::string::npos);
  EXPECT_NE(message_of([] { settings({"partition.kind=dirichlett"}); }).find("did you mean 'dirichlet'?"),
            std::string::npos);
  EXPECT_NE(message_of([] { settings({"stages.use=[\"clipp\"]"}); }).find("did you mean 'clip'?"), std::string::npos);
  EXPECT_NE(message_of([] { settings({"server.participation=1.5"}); }).find("expected a number in (0, 1], got 1.5"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              settings({"method.mu=1"});
            }).find("method.mu: this is an option of fedcurv, fednova, fedprox; method.name is \"fedavg\""),
            std::string::npos);
}

// Of so many that they are not shuffled as a whole: nobody twice, everyone equally often.
TEST(Cohort, OfVeryManyIsDrawnWithoutReplacement) {
  constexpr std::size_t kClients = 20000, kRounds = 500;
  std::vector<std::size_t> sizes(kClients, 1);
  sizes[5] = 0;
  const Roster roster(sizes);
  std::vector<double> low(2);  // how many of each half
  for (std::size_t round = 1; round <= kRounds; ++round) {
    const auto cohort = roster.draw(0.005, 1, round);
    ASSERT_EQ(cohort.size(), 100u);
    EXPECT_EQ(std::set<std::size_t>(cohort.begin(), cohort.end()).size(), 100u);
    EXPECT_EQ(std::ranges::find(cohort, 5u), cohort.end());
    for (const auto client : cohort) ++low[client / (kClients / 2)];
  }
  const double draws = 100.0 * kRounds;
  EXPECT_NEAR(low[0], draws / 2, 5 * std::sqrt(draws / 4)) << "five standard deviations";
  const auto all = roster.draw(1.0, 1, 1);
  EXPECT_EQ(all.size(), kClients - 1);
}

TEST(Cohort, IsDrawnByRoundAndSeedAlone) {
  std::vector<std::size_t> sizes;
  for (std::size_t client = 0; client < 50; ++client) sizes.push_back(client % 7 == 0 ? 0 : client);
  const auto a = Roster(sizes).draw(0.2, 1, 3);
  EXPECT_EQ(a, Roster(sizes).draw(0.2, 1, 3));
  EXPECT_NE(a, Roster(sizes).draw(0.2, 1, 4));
  EXPECT_NE(a, Roster(sizes).draw(0.2, 2, 3));
  EXPECT_EQ(a.size(), 8u);  // 42 clients hold data
  for (std::size_t i = 1; i < a.size(); ++i) EXPECT_GE(sizes[a[i - 1]], sizes[a[i]]);
  EXPECT_EQ(Roster(sizes).draw(1e-6, 1, 1).size(), 1u);
}

// The first client is slow; the others must wait for it rather than pile up.
TEST(Fold, MemoryHoldsAWindowNotTheCohort) {
  const SharedSchema schema = share({.channels = {{.name = "theta", .count = 4}}});
  std::atomic<std::size_t> alive{0}, most{0};
  constexpr std::size_t kWindow = 8;
  OrderedFold fold(schema, kWindow, [&](std::size_t, Settlement&) { --alive; });
  run_jobs(2, 200, [&](std::size_t, std::size_t position) {
    auto answer = fold.borrow();
    const std::size_t now = ++alive;
    most = std::max(most.load(), now);
    if (position == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    answer->update.shape(schema);
    answer->update.weight = 1.0;
    answer->update["theta"].assign(4, static_cast<float>(position));
    fold.push(position, std::move(answer), std::nullopt);
  });
  const FoldedRound folded = fold.take();
  EXPECT_EQ(folded.sum.count(), 200u);
  EXPECT_DOUBLE_EQ(folded.sum.total("theta")[0], 199.0 * 200.0 / 2.0);
  EXPECT_LE(most.load(), kWindow + 2);
}

// Whoever is first, the sum is that of the cohort's order, in blocks.
TEST(Fold, TheOrderOfArrivalDoesNotMatter) {
  const SharedSchema schema = share({.channels = {{.name = "theta", .count = 1}}});
  const auto sum_in = [&](const std::vector<std::size_t>& order) {
    OrderedFold fold(schema, order.size(), {});
    for (const std::size_t position : order) {
      auto answer = fold.borrow();
      answer->update.shape(schema);
      answer->update.weight = 1.0 + 0.1 * static_cast<double>(position);
      answer->update["theta"][0] = 1.0f / static_cast<float>(position + 3);
      const bool refused = position == 5;
      fold.push(position, refused ? nullptr : std::move(answer), refused ? std::optional("late") : std::nullopt);
    }
    FoldedRound folded = fold.take();
    EXPECT_EQ(folded.refused.size(), 1u);
    EXPECT_EQ(folded.refused.at(0).position, 5u);
    return folded.sum.take_mean("theta")[0];
  };
  std::vector<std::size_t> order(30);
  std::iota(order.begin(), order.end(), 0u);
  const double in_order = sum_in(order);
  Stream stream(3, "arrival");
  for (int trial = 0; trial < 20; ++trial) {
    stream.shuffle(std::span(order));
    EXPECT_EQ(sum_in(order), in_order);
  }
}

TEST(Fold, ARefusalIsLeftOutAndWhateverElseIsThrownIsNoRefusal) {
  const SharedSchema schema = share({.channels = {{.name = "theta", .count = 1}}});
  const auto sound = [&](Answer& answer) {
    answer.update.shape(schema);
    answer.update.weight = 1.0;
    answer.update["theta"][0] = 2.0f;
  };
  OrderedFold fold(schema, 4, {});
  fold.answer(0, sound);
  fold.answer(1, [](Answer&) { fail<RefusedUpdate>("too late"); });
  const FoldedRound folded = fold.take();
  EXPECT_EQ(folded.sum.count(), 1u);
  ASSERT_EQ(folded.refused.size(), 1u);
  EXPECT_EQ(folded.refused[0].reason, "too late");
  OrderedFold broken(schema, 4, {});
  EXPECT_THROW(broken.answer(0, [](Answer&) { fail<RunError>("the disk is gone"); }), RunError);
}

// A worker that waits for its turn must not wait for a round that has failed.
TEST(Fold, AFailureWhileOthersWaitEndsTheRound) {
  Experiment one = experiment({"server.participation=1"});
  ClientStore store(ClientStore::Keep::memory, {}, real_files());
  Federation federation(one, store, 3);
  const auto done = [](std::size_t, std::size_t) { throw std::runtime_error("the disk is gone"); };
  EXPECT_THROW(federation.round(1, done), std::runtime_error);
}

TEST(Study, ComparesMethodsOverSeedsAndSkipsWhatIsDone) {
  const TempFolder temp;
  Config config = Config::parse(kSmall, "small.toml");
  const auto runs = plan_compare(config, {"fedavg", "fedprox:mu=0.5", "fedavg:server.step=momentum"}, {1, 2},
                                 catalogue(), temp.path());
  ASSERT_EQ(runs.size(), 6u);
  EXPECT_EQ(runs[2].label, "fedprox mu=0.5");
  EXPECT_EQ(runs[2].folder.filename(), "fedprox-mu=0.5-s1");
  std::vector<RunFate> fates;
  const StudyHooks hooks{.finished = [&](const StudyResult& result) { fates.push_back(result.fate); }};
  const auto results = run_study(runs, catalogue(), {.threads = 2}, hooks);
  const auto rows = summarise(results);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].seeds, 2u);
  EXPECT_GT(rows[0].last.at("test_accuracy").deviation, 0.0);
  fates.clear();
  run_study(runs, catalogue(), {.threads = 2}, hooks);
  EXPECT_EQ(fates, std::vector<RunFate>(6, RunFate::done_before));
}

TEST(Study, ARunOfAnOlderVersionCountsWhileItsSettingsMeanTheSame) {
  const TempFolder temp;
  const auto runs =
      plan_compare(Config::parse(kSmall, "small.toml"), {"fedprox:mu=0.5"}, {1}, catalogue(), temp.path());
  std::vector<RunFate> fates;
  const StudyHooks hooks{.finished = [&](const StudyResult& result) { fates.push_back(result.fate); }};
  run_study(runs, catalogue(), {}, hooks);
  const auto rewrite = [&](const std::string& from, const std::string& to) {
    std::string text = read_file(runs[0].folder / "config.toml");
    ASSERT_NE(text.find(from), std::string::npos);
    text.replace(text.find(from), from.size(), to);
    real_files().replace(runs[0].folder / "config.toml", text);
  };
  rewrite("posterior_scale = 1.0\n", "");  // a key with its default, as if that version had not known it
  run_study(runs, catalogue(), {}, hooks);
  rewrite("mu = 0.5", "mu = 0.25");
  EXPECT_THROW(run_study(runs, catalogue(), {}, hooks), InputError) << "nobody asked to replace it";
  run_study(runs, catalogue(), {.overwrite = true}, hooks);
  EXPECT_EQ(fates, (std::vector<RunFate>{RunFate::fresh, RunFate::done_before, RunFate::fresh}));
}

TEST(Study, SweepsEveryCombination) {
  Config config =
      Config::parse(std::string(kSmall) + "[sweep]\n\"client.lr\" = [0.1, 0.2]\n\"run.seed\" = [1, 2, 3]\n");
  const auto runs = plan_sweep(config, {}, {}, catalogue(), "out");
  ASSERT_EQ(runs.size(), 6u);
  EXPECT_EQ(runs[0].label, "client.lr=0.1");
  EXPECT_EQ(runs[5].settings.client.real("lr"), 0.2);
  EXPECT_EQ(runs[5].seed, 3);
  EXPECT_THROW(plan_sweep(Config::parse(kSmall), {}, {}, catalogue(), "out"), InputError);
  EXPECT_THROW(plan_sweep(config, {}, {4}, catalogue(), "out"), InputError) << "two lists of seeds";
}

TEST(Study, SweepsOverMethodsAndSeeds) {
  const Config config = Config::parse(std::string(kSmall) + "[sweep]\nclient.lr = [0.1, 0.2]\n");
  const auto runs = plan_sweep(config, {"fedavg", "fedprox:mu=0.5"}, {1, 2}, catalogue(), "out");
  ASSERT_EQ(runs.size(), 8u);
  EXPECT_EQ(runs[3].label, "fedprox mu=0.5 client.lr=0.1");
  EXPECT_EQ(runs[3].method, "fedprox mu=0.5");
  EXPECT_EQ(runs[3].point, "client.lr=0.1");
  EXPECT_EQ(runs[3].seed, 2);
  EXPECT_EQ(runs[3].settings.method.real("mu"), 0.5);
  EXPECT_EQ(runs[3].folder.filename(), "fedprox-mu=0.5_client.lr=0.1_run.seed=2");
  const Config twice = Config::parse(std::string(kSmall) + "[sweep]\n\"method.name\" = [\"fedavg\"]\n");
  EXPECT_THROW(plan_sweep(twice, {"fedprox"}, {}, catalogue(), "out"), InputError);
}

}  // namespace
}  // namespace parley
