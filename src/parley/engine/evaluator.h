// What a run measures beside training: test sets, predictions under the method's posterior, data of another kind, and
// what each client gets. The same for a server's model and for the models of peers.
//
// Threads:  uses all workers, from the thread that calls.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "parley/engine/client_results.h"
#include "parley/engine/experiment.h"
#include "parley/engine/workers.h"
#include "parley/store/client_store.h"

namespace parley {

// The networks whose mean output a run predicts with ("bagging", Kiss 2021, §6.3): one of a server, several of peers.
using Members = std::vector<std::span<const float>>;

// A data set is evaluated in chunks of kEvaluationChunk rows, whoever does so.
std::size_t chunks_of(const Dataset& data);
// REQUIRES at least one part. In order, so that the bits do not depend on who evaluated which.
Evaluation merged(const std::vector<Evaluation>& parts);

class Evaluator {
 public:
  // All must outlive it.
  Evaluator(const Experiment& experiment, Workers& workers, const ClientStore& store);

  // On all rows of a data set. The same bits for any number of threads, likewise the others.
  Evaluation evaluate(const Members& members, const Dataset& data);
  // The chunks [begin, end) of it, for who shares them out.
  std::vector<Evaluation> evaluate_chunks(const Members& members, const Dataset& data, std::size_t begin,
                                          std::size_t end);
  // As [evaluate] asks for it, for metrics.jsonl:
  //   ood_auroc                         whether doubt tells evaluate.ood from the test set
  //   temperature, tempered_*           at the temperature that fits the server's own examples
  //   posterior_*, posterior_ood_auroc  of evaluate.posterior_samples networks drawn from the state, always the same in
  //                                     a round
  //   bn_kl, class_distribution_error   engine/statistics
  //   s_*, mt_*, finetune_*             engine/client_results, with evaluate.clients
  // Throws RunError when a prediction is not finite.
  std::map<std::string, double> measure(const State& state, const Members& members, std::size_t round, bool last);
  // What the last measure() found for each client, one object each; null when it does not ask them.
  const Json& client_table() const { return client_table_; }

  // Where clients' test data are not here: asks the clients. Gives nothing where they are.
  using Elsewhere = std::function<std::optional<ClientResults>(const Broadcast& broadcast)>;
  void ask_elsewhere(Elsewhere elsewhere) { elsewhere_ = std::move(elsewhere); }

  // What a client's own model did after its last accepted training.
  void remember(std::size_t client, ClientResult result) { own_.at(client) = std::move(result); }
  bool asks_clients() const { return !own_.empty(); }
  // What a client holds, for its side of a round.
  OwnData data_of(std::size_t client) const;

  // For a checkpoint.
  Json progress() const;
  void restore(const Json& progress);

  // What the members predict for each row, as one.
  MeanPrediction predict(const Members& members, const Dataset& data);
  MeanPrediction predict(const Members& members, const View& view);
  // What `samples` networks drawn from the posterior predict together for each data set; each is drawn once. REQUIRES a
  // method that has a posterior.
  std::vector<MeanPrediction> predict(const State& state, const std::vector<const Dataset*>& sets, std::size_t round,
                                      std::size_t samples, const Posterior::Draw& how);

 private:
  using Visit = std::function<void(Model& model, EvaluationBuffer& buffer, std::size_t begin, std::size_t end)>;

  // Shares out the chunks [first, last) of so many rows; the model that is visited with each predicts as the members
  // do.
  void for_each_chunk(const Members& members, std::size_t rows, std::size_t first, std::size_t last,
                      const Visit& visit);
  MeanPrediction nothing_predicted(std::size_t rows);
  void add_network(const Members& members, const View& view, std::size_t network, MeanPrediction& mean);
  void measure_doubt(const State& state, const Members& members, std::size_t round,
                     std::map<std::string, double>& metrics);
  void measure_tempered(const Members& members, std::map<std::string, double>& metrics);
  ClientSurvey survey(const State& state, std::size_t round, bool last);
  // `own_known`: of some client at least there is an own result.
  void survey_client(ClientSide& side, const Broadcast& broadcast, std::size_t client, bool own_known,
                     ClientSurvey& survey);

  const Experiment& experiment_;
  Workers& workers_;
  const ClientStore& store_;
  std::uint64_t seed_;
  std::vector<std::uint32_t> ood_rows_;  // all of evaluate.ood; a client takes as many from the front as it deserves
  ClientResults own_;                    // of each client's last accepted training; empty unless evaluate.clients
  Json client_table_;
  Elsewhere elsewhere_;
};

}  // namespace parley
