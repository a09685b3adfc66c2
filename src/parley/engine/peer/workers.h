// The threads that do the peers' work: training at nodes, and evaluating several models as one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "parley/engine/experiment.h"
#include "parley/model/evaluation.h"

namespace parley {

// What one thread owns.
class PeerWorker {
 public:
  explicit PeerWorker(const Experiment& experiment);

  // A model that drops out `thinning` times less than [model] says (π/σ, thesis §6.3). Its weights are anyone's.
  Model& model(std::size_t thinning = 1);

  LocalTrainer trainer;
  EvaluationBuffer evaluation;

 private:
  const Experiment& experiment_;
  std::map<std::size_t, std::unique_ptr<Model>> models_;  // by thinning
};

class PeerWorkers {
 public:
  // The experiment must outlive the workers.
  PeerWorkers(const Experiment& experiment, std::size_t threads);

  // job(worker, index) for every index in [0, count), on all threads.
  void run(std::size_t count, const std::function<void(PeerWorker& worker, std::size_t index)>& job);

  // The mean of the members' raw outputs ("bagging", thesis §6.3) on all rows of a data set. The same bits for any
  // number of threads.
  Evaluation evaluate(const std::vector<std::span<const float>>& members, const Dataset& data);

 private:
  std::vector<std::unique_ptr<PeerWorker>> workers_;
};

}  // namespace parley
