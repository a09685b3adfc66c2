#include "parley/engine/peer/peers.h"

#include "parley/base/counted.h"
#include "parley/base/errors.h"
#include "parley/engine/experiment.h"
#include "parley/engine/peer/dpsgd.h"
#include "parley/engine/peer/gossip.h"
#include "parley/engine/peer/walk.h"
#include "parley/methods/fedavg/fedavg.h"

namespace parley {
namespace {

constexpr const char* kThesis = "Kiss 2021, ch. 6";

std::vector<Option> choosing_options() {
  return {
      {"models", std::int64_t{1}, "models that travel, K'; they predict together", at_least(1)},
      {"route",
       std::string("benefit"),
       "where to go: the candidate with the highest benefit; any neighbour; a neighbour that has not added to this "
       "buffer yet; the neighbour seen longest ago",
       {},
       {"benefit", "random", "fresh", "cyclic"}},
      {"candidates", std::int64_t{5}, "random neighbours that are asked for their benefit, at most half of them",
       at_least(1)},
      {"discount", 0.05, "ξ: what a belief loses with every visit", between(0.0, 1.0)},
      {"flip", 0.0,
       "chance that a node lies about holding a class (randomised response); a bit then tells ln((1 − flip)/flip)",
       between(0.0, 0.5)},
  };
}

std::vector<Option> buffer_options() {
  auto options = choosing_options();
  options.push_back({"buffer", std::int64_t{1}, "σ at the start: visits that are averaged", at_least(1)});
  options.push_back({"max_buffer", std::int64_t{5}, "how far σ may grow", at_least(1)});
  options.push_back({"patience", std::int64_t{15}, "θ: σ grows after so many moves without improvement", at_least(1)});
  options.push_back({"smoothing", 0.1, "weight of the newest node in the moving average of the accuracy",
                     Range{.low = 0.0, .high = 1.0, .low_excluded = true}});
  return options;
}

void check_walk(const Experiment& experiment) {
  const WalkOptions options(experiment.settings.method);
  const Dataset& data = *experiment.federated.data.train;
  const std::string& name = experiment.settings.method.text("name");
  if (data.classes == 0) {
    fail("method.name = \"{}\": data set '{}' has no classes to test a travelling model by; use gossip or dpsgd", name,
         data.name);
  }
  if (const std::size_t nodes = experiment.network->nodes().size(); options.models > nodes) {
    fail("method.models = {}: only {} data; lower it", options.models, counted(nodes, "node holds", "nodes hold"));
  }
}

template <class Kind>
std::unique_ptr<Engine> make(const Experiment& experiment, ClientStore& store, std::size_t threads) {
  return std::make_unique<Kind>(experiment, store, threads);
}

PeerMethod walk() {
  return {.check = check_walk, .make = make<Walk>};
}

// The server's step belongs to whoever averages; here nobody does.
void check_residents(const Experiment& experiment) {
  if (const std::string& step = experiment.settings.server.text("step"); step != "replace") {
    fail("server.step = \"{}\": {} has no server to take it; use \"replace\"", step,
         experiment.settings.method.text("name"));
  }
}

}  // namespace

PeerRegistry peers() {
  PeerRegistry registry("peer method");
  registry.add({.name = "mm",
                .summary = "Migrating models: they walk to where they can learn most, and average over some visits.",
                .source = kThesis,
                .options = buffer_options()},
               walk());
  registry.add({.name = "smm",
                .summary = "Simple migrating models: mm without a buffer, every visit counts at once.",
                .source = kThesis,
                .options = choosing_options()},
               walk());
  registry.add({.name = "cyclic",
                .summary = "Weights that are handed round: always to the neighbour seen longest ago.",
                .source = "Chang et al. 2018",
                .options = {{"models", std::int64_t{1}, "models that go round; they predict together", at_least(1)}}},
               walk());
  registry.add(
      {.name = "dpsgd",
       .summary = "Decentralised SGD: every node trains, then mixes its weights with its neighbours'.",
       .source = "Lian et al. 2017",
       .options = {{"mix",
                    std::string("trained"),
                    "what neighbours mix: their trained weights; or, as published (Kiss 2021, Eq. 3.15), those "
                    "from before, and each adds its own step to the mixture",
                    {},
                    {"trained", "before"}}}},
      {.check = check_residents, .make = make<Dpsgd>});
  registry.add({.name = "gossip",
                .summary = "Gossip learning: nodes send their models to random neighbours, which merge and train them.",
                .source = "Hegedűs et al. 2019",
                .options = {{"period", 1.0,
                             "seconds between two messages of a node: simulated ones, or with parley peer real ones",
                             above(0.0)}}},
               {.check = check_residents, .make = make<Gossip>});
  return registry;
}

MethodRegistry with_peers(MethodRegistry methods, const PeerRegistry& peers) {
  for (const auto& entry : peers.entries()) {
    methods.add(entry.about, [](const MethodContext& context) { return make_averaging(context, 0.0); });
  }
  return methods;
}

}  // namespace parley
