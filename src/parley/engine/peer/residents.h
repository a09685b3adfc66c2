// A model at every node, for the peers that stay at home and send each other weights.
#pragma once

#include <optional>
#include <vector>

#include "parley/engine/engine.h"
#include "parley/engine/evaluator.h"
#include "parley/engine/peer/nodes.h"

namespace parley {

// What gossip and D-PSGD share. All nodes start from the same weights; state() is the mean of the living nodes' ones.
class Residents : public Engine {
 public:
  // The experiment and the store must outlive it. REQUIRES experiment.network.
  Residents(const Experiment& experiment, ClientStore& store, std::size_t threads);

  State& state() override { return state_; }
  Evaluation evaluate(const Dataset& data) override;
  MeanPrediction predict(const Dataset& data) override;
  // single_accuracy: the mean accuracy of some nodes' own models, always the same nodes.
  std::map<std::string, double> measure(std::size_t round, bool last) override;

 protected:
  struct Trained {
    std::optional<Update> update;
    std::string refusal;  // why there is none
  };
  // Trains each of these nodes from its own weights, on all threads; round_of names the streams.
  std::vector<Trained> train(const std::vector<std::size_t>& nodes, const std::vector<std::size_t>& round_of);
  // Adds to the report what one node's training did.
  void count(const Trained& trained, std::size_t node, RoundReport& report) const;
  // Closes a round at the simulated time `now`: the mean into state(), the numbers into the report. Throws RunError
  // when nothing was accepted.
  void close(RoundReport& report, double now);

  std::span<float> theta(std::size_t node) { return models_[node].at("theta"); }

  const Experiment& experiment_;
  const Network& network_;
  ClientStore& store_;
  std::uint64_t seed_;
  NodeData nodes_;
  ServerSide server_;  // for its schema: nobody serves here
  Workers workers_;
  Evaluator evaluator_;

 private:
  std::vector<State> models_;  // by node; empty for clients that take no part
  State state_;
};

}  // namespace parley
