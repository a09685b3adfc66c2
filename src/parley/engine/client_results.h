// What each client gets out of the federation, measured on test data of its own (evaluate.clients).
//
//   S          the shared model, as the client would use it
//   MT         the client's own model: what it had after its last training; before its first, the shared model
//   finetuned  the shared model after evaluate.finetune more epochs at the client
//
// A client's own model changes only when it trains, so it is evaluated then and there, and no model is kept for it.
#pragma once

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
  // accuracy (or loss, without classes) is worse after it.
  std::map<std::string, double> metrics() const;
  // One object a client, for clients.json.
  Json table() const;
};

}  // namespace parley
