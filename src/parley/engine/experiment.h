// Settings made real: data, partition, model, method, ready to run.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parley/data/dataset.h"
#include "parley/data/partition.h"
#include "parley/engine/catalogue.h"
#include "parley/engine/client_side.h"
#include "parley/engine/pace.h"
#include "parley/engine/peer/network.h"
#include "parley/engine/server_side.h"
#include "parley/engine/settings.h"
#include "parley/methods/method.h"

namespace parley {

// Data sets that are already loaded, so that the runs of a comparison share one copy.
class DataCache {
 public:
  using Load = std::function<TrainTest()>;
  // Wraps every loading, where processes share what one of them loads.
  explicit DataCache(std::function<TrainTest(const Load& load)> share = [](const Load& load) { return load(); })
      : share_(std::move(share)) {}

  TrainTest load(const Options& data, const Catalogue& catalogue);

 private:
  std::function<TrainTest(const Load& load)> share_;
  std::map<std::string, TrainTest> loaded_;
};

// The examples of a run and who holds them.
struct Federated {
  TrainTest data;
  Partition partition;
  // Each client's own test data: rows of `own_test_data`, which is the training set when a part of it is held out.
  Partition own_test = {};
  std::shared_ptr<const Dataset> own_test_data = {};

  // Rows of the training set that the server holds itself, and no client (server.examples).
  std::vector<std::uint32_t> server_rows = {};

  View own_test_view(std::size_t client) const { return own_test.view(*own_test_data, client); }
};
Federated deal(const Settings& settings, const Catalogue& catalogue, DataCache& cache);

struct Experiment {
  Settings settings;
  Federated federated;
  Task task;
  MakeModel make_model;
  std::shared_ptr<const Layout> layout;
  Flat initial;
  std::vector<std::size_t> sizes;  // how many examples each client of the federation holds
  std::unique_ptr<Method> method;
  std::unique_ptr<ServerStep> server_step;
  Stages stages;
  MakeOptimizer make_optimizer;
  std::shared_ptr<const Dataset> ood;      // evaluate.ood: inputs unlike the data, seen through its transform; or null
  Flat reference;                          // evaluate.reference: weights of another run, or empty
  std::shared_ptr<const Pace> pace;        // how fast the simulated machines and links are
  std::shared_ptr<const Network> network;  // that peers live in; null when there is a server
  std::unique_ptr<const ServerExamples> server_examples;  // null unless server.examples
  std::string partition_text;                             // "dirichlet alpha=0.01, 10 clients"

  std::unique_ptr<Model> new_model() const { return make_model(settings.model, task); }
  std::uint64_t seed() const { return static_cast<std::uint64_t>(settings.run.integer("seed")); }
  // What the two sides of a round are made from. The experiment must outlive them, and stay where it is.
  ServerSetup server_setup() const;
  ClientSetup client_setup(SharedSchema schema) const;
  MethodContext method_context() const;
  std::size_t clients() const { return sizes.size(); }
  std::size_t examples() const;        // of all clients
  std::string describe_model() const;  // "mlp 784-500-300-10"
};

// The method as a run uses it, from a layout and options alone: with [aggregate] and, by client.state, what the local
// optimiser keeps (`slots`).
std::unique_ptr<Method> make_method(const Catalogue& catalogue, const MethodContext& context,
                                    const std::vector<Optimizer::Slot>& slots);

// Validates everything that can be known before the first round. Throws InputError. Where the clients' data are not all
// here, `sizes` says how many examples each holds; empty: what the partition deals them.
Experiment build(const Settings& settings, const Catalogue& catalogue, DataCache& cache,
                 std::vector<std::size_t> sizes = {});

}  // namespace parley
