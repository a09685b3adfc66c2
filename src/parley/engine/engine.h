// What drives a run from round to round: a server with its clients (engine/federation), or peers (engine/peer).
//
// Order:    construct -> [the state restored, then restore()] -> round()* with evaluate() and measure() wherever
// wanted. Failure:  round() throws RunError when the run cannot go on; state() is then that of the round before.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parley/engine/errands.h"
#include "parley/engine/executor.h"
#include "parley/model/evaluation.h"
#include "parley/store/client_store.h"
#include "parley/store/run_folder.h"
#include "parley/update/state.h"

namespace parley {

struct RoundReport {
  std::size_t round = 0;
  std::size_t clients = 0;   // accepted
  std::size_t examples = 0;  // gradient evaluations
  std::size_t steps = 0;
  double train_loss = 0.0;         // mean over examples, along the clients' paths
  double epochs = 0.0;             // passes over a client's data, summed over clients
  std::size_t transmissions = 0;   // messages with a model, or with what stands for one
  double simulated_seconds = 0.0;  // on the machines and links of [network]
  std::size_t bytes_up = 0;
  std::size_t bytes_down = 0;
  std::vector<std::string> refused;  // "client 7: diverged: …"
  std::map<std::string, double> extra;
  bool finished = false;  // the method asks for no further round
  Json visits = nullptr;  // where travelling models went; null when there are none
};

// Called after each client: (finished so far, of how many).
using RoundProgress = std::function<void(std::size_t, std::size_t)>;

class Engine {
 public:
  virtual ~Engine() = default;

  // What model.safetensors holds after the last round.
  virtual State& state() = 0;
  virtual RoundReport round(std::size_t number, const RoundProgress& done) = 0;
  // What the run predicts with, on all rows of a data set.
  virtual Evaluation evaluate(const Dataset& data) = 0;
  // Likewise, what is predicted for each row.
  virtual MeanPrediction predict(const Dataset& data) = 0;
  // What else is measured whenever the test set is; for metrics.jsonl. `last`: no further round will follow.
  virtual std::map<std::string, double> measure(std::size_t round, bool last) = 0;
  // What the last measure() found for each client, one object each; null when it does not ask them.
  virtual Json client_table() const { return nullptr; }

  // What a checkpoint holds beside the state and the clients' records.
  virtual Json progress() const { return nullptr; }
  // Goes on from a checkpoint whose state and clients' records are back in place.
  virtual void restore(const Json& /*progress*/) {}
};

struct Experiment;
// The experiment and the store must outlive the engine.
using MakeEngine = std::function<std::unique_ptr<Engine>(const Experiment&, ClientStore&, std::size_t threads)>;
// The one that the experiment asks for. Client sides run on threads unless another executor is given, or other errands
// where rounds are buffered; peers take neither.
std::unique_ptr<Engine> make_engine(const Experiment& experiment, ClientStore& store, std::size_t threads,
                                    const MakeExecutor& make_executor = {}, const MakeErrands& make_errands = {});

}  // namespace parley
