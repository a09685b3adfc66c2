// One client's side of a round: an invitation and what the client holds itself go in, an answer comes out.
//
//   (invitation, own data, own record) -> (update, record to store, own result, cost)
//
// It is the same on a thread of a simulation, at a peer and on a node across a network: nothing here knows of other
// clients or of a server.
//
// Threads:  one ClientSide per worker; it owns a model and everything that is reused from client to client.
// Failure:  RefusedUpdate when training failed. The round goes on without this client; its record stays as it was.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "parley/base/secrets.h"
#include "parley/engine/client_results.h"
#include "parley/methods/method.h"
#include "parley/model/evaluation.h"
#include "parley/stages/stage.h"

namespace parley {

// What a client is asked.
struct Invitation {
  Broadcast broadcast;  // its number is the round
  std::size_t client;
  std::size_t cohort;     // clients that were asked to take part
  std::uint64_t seed;     // names the client's streams
  bool test_own = false;  // whether the model that training leaves is to be tested on the client's own test data
  std::size_t steps = 0;  // at most so many local steps; 0: as many as [client] says
};

// What it holds, and nobody else.
struct OwnData {
  View train;
  View test = {};  // empty: it has none
  View ood = {};   // examples of another kind, seen through its own eyes; empty: none
};

// What comes back. Only the update travels to a server; the record stays where the client is.
struct Answer {
  Update update;
  std::optional<ClientRecord> record = {};  // to be stored once the update is accepted; nothing: as it was
  std::optional<ClientResult> own = {};     // of its own model, when that was asked for
  double epochs = 0.0;                      // passes over its data
};

// What all clients of a run have in common. Everything it points to must outlive the sides made from it.
struct ClientSetup {
  const Method* method;
  const Stages* stages;
  SharedSchema schema;
  LocalOptions local;
  bool uniform_weights;            // every client counts the same, however much it holds
  std::span<const float> initial;  // the weights that the run started from
  NewModel new_model;
  std::function<std::unique_ptr<Optimizer>()> new_optimizer;
  Secrets secrets = system_secrets;
};

class ClientSide {
 public:
  explicit ClientSide(const ClientSetup& setup, std::size_t worker = 0);

  // Fills `answer`, whose memory is reused. With `model`, that one is trained in place of the worker's own.
  void answer(const Invitation& invitation, const OwnData& data, std::optional<ClientRecord> record, Answer& answer,
              Model* model = nullptr);

  std::size_t worker() const { return worker_; }  // the number of the thread it is for
  // For whoever evaluates on the same worker: the shared model, and a task as a client would have it.
  Model& shared() { return *shared_; }
  ClientTask task(const Invitation& invitation, const View& data, ClientMemory& memory, Model& model);
  LocalTrainer& trainer() { return trainer_; }
  EvaluationBuffer& buffer() { return buffer_; }
  // True when no second side may work at the same time (model.h).
  bool exclusive() { return trained().exclusive(); }

 private:
  Model& trained() { return trained_ ? *trained_ : *shared_; }
  void apply_stages(const Invitation& invitation, ClientMemory& memory, Update& update) const;
  std::optional<ClientResult> test_own(const ClientTask& task, const OwnData& data, const Update& update);

  ClientSetup setup_;
  LocalOptions local_;  // of the task at hand
  std::size_t worker_;
  std::unique_ptr<Model> shared_;
  std::unique_ptr<Model> trained_;  // what clients train, when it is another
  LocalTrainer trainer_;
  EvaluationBuffer buffer_;
};

}  // namespace parley
