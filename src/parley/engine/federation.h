// The round: draw a cohort, train and fold, stages backwards, the server's step. On threads of this process.
//
// Order:    construct -> [restore state] -> round()* with evaluate() wherever wanted.
// Failure:  round() throws RunError when too few clients are left or the new state is not finite; the state is then
//           that of the round before.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parley/engine/client_results.h"
#include "parley/engine/engine.h"
#include "parley/engine/experiment.h"
#include "parley/engine/fold.h"
#include "parley/store/client_store.h"
#include "parley/update/state.h"

namespace parley {

class Federation final : public Engine {
 public:
  // The experiment and the store must outlive the federation.
  Federation(const Experiment& experiment, ClientStore& store, std::size_t threads);
  ~Federation() override;

  State& state() override { return state_; }
  const State& state() const { return state_; }
  std::size_t workers() const { return workers_.size(); }

  RoundReport round(std::size_t number, const RoundProgress& done = {}) override;
  // The state's model on all rows of a data set.
  Evaluation evaluate(const Dataset& data) override;
  // What the model does not know (engine/uncertainty) and what each client gets (engine/client_results), as [evaluate]
  // asks for it.
  std::map<std::string, double> measure(std::size_t round, bool last) override;
  Json client_table() const override { return client_table_; }
  Json progress() const override;
  void restore(const Json& progress) override;

  // What the state's model predicts for each of them.
  MeanPrediction predict(const Dataset& data);
  // What `samples` networks drawn from the posterior predict together for each data set; each is drawn once. The same
  // networks whenever the round is the same, one stream each. REQUIRES a method that has a posterior.
  std::vector<MeanPrediction> predict(const std::vector<const Dataset*>& sets, std::size_t round, std::size_t samples,
                                      const PosteriorDraw& how);

 private:
  struct Worker;

  // What one client's turn cost, for the round's account, and what came of it.
  struct Turn {
    double seconds = 0.0;  // simulated
    double epochs = 0.0;
    std::optional<ClientResult> own = {};  // of the client's own model, when that is asked for
  };

  using Visit = std::function<void(Worker& worker, std::size_t begin, std::size_t end)>;

  // Puts these weights into every worker's model and shares out the rows [0, rows), in fixed chunks.
  void for_each_chunk(std::span<const float> theta, std::size_t rows, const Visit& visit);
  MeanPrediction nothing_predicted(const Dataset& data) const;
  // Network number `network` of the mean: these weights.
  void add_network(std::span<const float> theta, const View& view, std::size_t network, MeanPrediction& mean);
  ClientTask task_for(Worker& worker, Model& model, std::size_t round, std::size_t client) const;
  Turn train_client(Worker& worker, std::size_t round, std::size_t cohort, std::size_t client, const Schema& schema,
                    Update& update) const;
  // The client's own model, just trained, on its own test data; nothing when that is not asked for or it has none.
  std::optional<ClientResult> own_result(Worker& worker, const ClientTask& task, const Schema& schema,
                                         const Update& update) const;
  // What the networks that `load` puts into task.model predict together.
  ClientResult test_client(Worker& worker, const ClientTask& task, std::size_t networks,
                           const std::function<void(std::size_t network)>& load) const;
  ClientSurvey survey(std::size_t round, bool last);
  void require_enough(const CohortResult& result, const RoundReport& report, std::size_t cohort) const;

  const Experiment& experiment_;
  ClientStore& store_;
  LocalOptions local_;
  std::uint64_t seed_;
  State state_;
  std::vector<std::unique_ptr<Worker>> workers_;
  ClientResults own_;  // of each client's last accepted training
  Json client_table_;
};

}  // namespace parley
