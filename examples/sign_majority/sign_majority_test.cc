// The example of CONTRIBUTING.md, run as a user would run it: from a config, by name.
#include "sign_majority/sign_majority.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "parley/base/errors.h"
#include "parley/base/files.h"
#include "parley/engine/federation.h"

namespace parley {
namespace {

// The line that CONTRIBUTING.md adds to src/parley/methods/registry.cc.
const Catalogue& catalogue() {
  static const Catalogue instance = [] {
    Catalogue all;
    add_sign_majority(all.methods);
    return all;
  }();
  return instance;
}

constexpr const char* kExperiment = R"(
[data]
name = "synthetic"
classes = 4
[partition]
clients = 9
[model]
name = "logistic"
[method]
name = "sign_majority"
step = 0.02
)";

Experiment experiment(const std::string& assignment = "run.seed=1") {
  Config config = Config::parse(kExperiment, "example");
  config.set(assignment);
  DataCache cache;
  return build(resolve(config, catalogue()), catalogue(), cache);
}

struct Finished {
  State state;
  RoundReport last;
  double accuracy;
};

Finished run(const Experiment& experiment, std::size_t rounds, std::size_t threads) {
  ClientStore store(ClientStore::Keep::memory, {}, real_files());
  Federation federation(experiment, store, threads);
  RoundReport last;
  for (std::size_t round = 1; round <= rounds; ++round) {
    last = federation.round(round);
    store.commit(round);
  }
  const double accuracy = federation.evaluate(*experiment.federated.data.test).accuracy();
  return {federation.state(), std::move(last), accuracy};
}

TEST(SignMajority, Learns) {
  EXPECT_GT(run(experiment(), 20, 2).accuracy, 0.95);
}

TEST(SignMajority, MovesEveryWeightByTheStepOrNotAtAll) {
  const Experiment one = experiment();
  const Finished finished = run(one, 1, 1);
  const auto theta = finished.state.at("theta");
  std::size_t moved = 0;
  for (std::size_t i = 0; i < theta.size(); ++i) {
    const double distance = std::abs(double{theta[i]} - one.initial[i]);
    if (distance == 0.0) continue;
    EXPECT_NEAR(distance, 0.02, 1e-6);
    ++moved;
  }
  EXPECT_GT(moved, theta.size() / 2);
}

TEST(SignMajority, MostVotesWin) {
  const Experiment one = experiment();
  State state;
  state.add("theta", one.layout, true, Flat(one.layout->size(), 0.0f));
  const SharedSchema schema = share(one.method->schema());
  Sum sum(schema);
  const std::vector<std::vector<float>> votes{{1, 1, 1}, {1, 1, -1}, {1, -1, 0}};
  for (std::size_t client = 0; client < votes.size(); ++client) {
    Update update(schema);
    update.weight = client == 2 ? 1000.0 : 1.0;  // one client, one vote, whatever it holds
    std::ranges::copy(votes[client], update["votes"].begin());
    sum.add(update);
  }
  ServerTask task{.round = 1, .clients = 3, .state = state, .sum = sum, .step = *one.server_step};
  one.method->server(task);
  EXPECT_FLOAT_EQ(state.at("theta")[0], 0.02f);
  EXPECT_FLOAT_EQ(state.at("theta")[1], 0.02f);
  EXPECT_FLOAT_EQ(state.at("theta")[2], 0.0f);  // a draw
}

TEST(SignMajority, SendsAFifthOfAByteAWeight) {
  const Experiment one = experiment();
  const std::size_t votes = (one.layout->trainable() + 4) / 5;
  const std::size_t envelope = Update(share({.channels = {{.name = "votes"}}})).wire_bytes();
  EXPECT_EQ(run(one, 1, 1).last.bytes_up, 9 * (votes + envelope));
}

TEST(SignMajority, VotesSurviveTheWire) {
  const Experiment one = experiment();
  ServerSide server(one.server_setup());
  ClientSide client(one.client_setup(server.schema()));
  Answer answer;
  const Broadcast broadcast(server.state(), 1);
  client.answer({.broadcast = broadcast, .client = 4, .cohort = 9, .seed = 1},
                {.train = one.federated.partition.view(*one.federated.data.train, 4)}, {}, answer);
  EXPECT_EQ(Update::decode(answer.update.encode(), server.schema(), broadcast).channels(), answer.update.channels());
}

TEST(SignMajority, SameBitsForAnyNumberOfThreads) {
  const Experiment one = experiment();
  const Finished a = run(one, 5, 1), b = run(one, 5, 3);
  EXPECT_TRUE(std::ranges::equal(a.state.at("theta"), b.state.at("theta")));
}

TEST(SignMajority, ComposesWithServerSteps) {
  EXPECT_GT(run(experiment("server.step=momentum"), 20, 2).accuracy, 0.95);
}

TEST(SignMajority, RefusesAStepOfZeroByName) {
  try {
    experiment("method.step=0");
    FAIL() << "not refused";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("method.step"), std::string::npos) << error.what();
  }
}

// Every block of code in CONTRIBUTING.md's section on methods, but for the line that goes into the registry, is a part
// of the example as it stands.
TEST(SignMajority, IsQuotedFaithfully) {
  const std::string source = read_file(PARLEY_SOURCE "/examples/sign_majority/sign_majority.cc");
  const std::string page = read_file(PARLEY_SOURCE "/CONTRIBUTING.md"), open = "```cpp\n", close = "```";
  std::size_t quotes = 0;
  for (std::size_t at = 0; (at = page.find(open, at)) != std::string::npos;) {
    const std::size_t begin = at + open.size();
    at = page.find(close, begin);
    ASSERT_NE(at, std::string::npos) << "a block that does not end";
    const std::string block = page.substr(begin, at - begin);
    if (block == "  add_sign_majority(registry);\n") continue;
    EXPECT_NE(source.find(block), std::string::npos) << "not in sign_majority.cc:\n" << block;
    ++quotes;
  }
  EXPECT_GE(quotes, 4u);
}

}  // namespace
}  // namespace parley
