// Rounds that fit into a time (server.round_seconds): whom to ask, and for how many local steps.
//
//   cohort = "fedcs"     FedCS (Nishio and Yonetani 2019): as many of the candidates as can answer in time,
//                        max |S| subject to T_round ≥ T_d + Θ_S, greedily, the quickest first
//   steps = "adaptive"   every client takes as many of its steps as it has time for, at least one
//
// A client's turn is taken to last fixed + per_step·steps seconds. In a simulation both numbers are those of [network];
// on real machines they are those of the client's last turn, and who is not known yet is taken to be quick enough.
// Links are each client's own and all clients work at once, so a round lasts as long as its longest turn: what is
// greedy is then also the best that can be done.
#pragma once

#include <optional>
#include <vector>

#include "parley/engine/executor.h"
#include "parley/engine/experiment.h"
#include "parley/methods/method.h"
#include "parley/store/run_folder.h"

namespace parley {

class TimeBudget final : public CohortRule {
 public:
  // `measured`: by observe() alone, and nothing of [network]. The experiment must outlive it.
  TimeBudget(const Experiment& experiment, bool measured);

  // Of the candidates, who are drawn at random as always, those that can answer in time; where none can, the quickest.
  std::vector<std::size_t> cohort(const CohortTask& task) const override;
  // How many steps the client may take in the round; 0: as many as [client] says.
  std::size_t steps(std::size_t client, std::size_t round) const;
  bool chooses_cohort() const { return fedcs_; }
  bool in_use() const { return fedcs_ || adaptive_; }

  void observe(std::size_t round, const Turn& turn);
  // How long the client's turn would last; nothing: not known.
  std::optional<double> expected_seconds(std::size_t client, std::size_t round) const;

  // What was observed, for a checkpoint; null where nothing is.
  Json progress() const;
  void restore(const Json& progress);

 private:
  struct Speed {
    double fixed, per_step;
    std::size_t seen = 0;  // the round in which it was measured
  };

  std::optional<Speed> speed(std::size_t client, std::size_t round) const;
  std::size_t planned(std::size_t client) const { return local_.steps(experiment_.sizes[client]); }
  std::size_t steps_in_time(const Speed& speed, std::size_t client) const;

  const Experiment& experiment_;
  const bool measured_, fedcs_, adaptive_;
  const double seconds_;
  const LocalOptions local_;
  std::size_t bytes_down_ = 0, bytes_up_ = 0;   // simulated
  std::vector<std::optional<Speed>> observed_;  // by client
};

// Throws InputError for settings that contradict each other, or the method.
void require_fit_for_time_budget(const Experiment& experiment);
// The same for a simulation, where every time is known beforehand: [network] must be there, and somebody be in time.
void require_somebody_in_time(const Experiment& experiment);

}  // namespace parley
