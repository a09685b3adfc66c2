// What each client gets out of the federation, measured on test data of its own (evaluate.clients).
//
//   S          the shared model, as the client would use it
//   MT         the client's own model: what it had after its last training; before its first, the shared model
//   finetuned  the shared model after evaluate.finetune more epochs at the client
//
// A client's own model changes only when it trains, so it is evaluated then and there, and no model is kept for it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "parley/model/evaluation.h"
#include "parley/store/run_folder.h"

namespace parley {

// How a model did on one client's test data.
struct ClientResult {
  Evaluation evaluation;
  std::optional<double> ood_auroc;  // how well its doubt tells evaluate.ood from that data
};

// What the networks that `load` puts into the model, one after the other, predict together for a client's own test
// data, and for data of another kind where there are any. Throws RunError when that is not finite.
ClientResult test_networks(Model& model, const View& own, const View& ood, std::size_t networks,
                           const std::function<void(std::size_t network)>& load, EvaluationBuffer& buffer);
// Adds what the model, as network number `network`, predicts for the rows [begin, end) of the view.
void add_prediction(Model& model, const View& view, std::size_t begin, std::size_t end, std::size_t network,
                    EvaluationBuffer& buffer, MeanPrediction& mean);

using ClientResults = std::vector<std::optional<ClientResult>>;  // by client; nothing: never measured

// For a checkpoint; from_json(to_json(x)) is x, bit for bit.
Json to_json(const ClientResults& results);
ClientResults results_from_json(const Json& json);

// One evaluation of all clients that have test data.
struct ClientSurvey {
  ClientResults shared;
  ClientResults own;        // shared where the client has not trained yet
  ClientResults finetuned;  // empty when that was not asked for

  // Over clients, weighted by test size: s_accuracy, mt_accuracy, …, and finetune_worse, the part of the clients whose
  // accuracy (or loss, without classes) is worse after it. s_spread is the standard deviation of the clients' own
  // accuracies (or losses) under the shared model, each client counting the same.
  std::map<std::string, double> metrics() const;
  // One object a client, for clients.json.
  Json table() const;
};

}  // namespace parley
