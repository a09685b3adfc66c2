// Models that walk: each trains at a node, and moves on to a neighbour, in simulated time (Kiss 2021, ch. 6).
//
// A round is a number of visits (peer.visits), whichever models made them; there is no barrier. A node trains one
// visitor at a time, in the order of arrival. A node that dies loses the visit, not the model: its sender keeps a copy
// until the model has left again, and sends that elsewhere.
//
// Training that has begun depends on nothing that happens meanwhile. So when the first of such visits ends, all of them
// are trained at once, on all threads; the results are used in the order of simulated time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parley/engine/engine.h"
#include "parley/engine/evaluator.h"
#include "parley/engine/peer/events.h"
#include "parley/engine/peer/hosting.h"

namespace parley {

class Walk final : public Engine {
 public:
  // The experiment and the store must outlive the walk. REQUIRES experiment.network.
  Walk(const Experiment& experiment, ClientStore& store, std::size_t threads);

  State& state() override { return state_; }
  RoundReport round(std::size_t number, const RoundProgress& done) override;
  // The models' mean output.
  Evaluation evaluate(const Dataset& data) override;
  MeanPrediction predict(const Dataset& data) override;
  // single_accuracy: the mean over the models of each one's own, when there are several.
  std::map<std::string, double> measure(std::size_t round, bool last) override;
  Json progress() const override;
  void restore(const Json& progress) override;

 private:
  struct Visit {
    bool begun = false, trained = false;
    double start = 0.0;
    VisitResult result;
  };

  std::vector<std::span<const float>> members() const;

  void arrive(const PeerEvent& event, RoundReport& report);
  void leave(const PeerEvent& event, RoundReport& report);
  void lose(std::size_t model, std::size_t node, RoundReport& report);
  // From `keeper`, which has the model, to a neighbour.
  void move_on(std::size_t model, std::size_t keeper, RoundReport& report);
  void train_begun();
  void finish(RoundReport& report, double began);

  const Experiment& experiment_;
  const Network& network_;
  ClientStore& store_;
  Hosting hosting_;
  std::vector<std::vector<bool>> says_present_;  // by node
  std::vector<Traveller> travellers_;
  std::vector<Visit> visits_;  // by traveller
  std::vector<double> free_;   // by node: when it has trained whoever came so far
  EventQueue events_;
  Workers workers_;
  Evaluator evaluator_;
  State state_;
};

}  // namespace parley
