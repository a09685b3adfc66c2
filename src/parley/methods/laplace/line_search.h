// A step whose length is measured. An exchange is a round, so a search is one of its own: the server keeps its weights
// and sends the step that it proposes along; clients return nothing but their loss at a few lengths of it, and the
// server goes where the loss and the prior's share are least.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "parley/methods/laplace/options.h"

namespace parley {

// The lengths that are measured; the first is 0, where the step begins.
std::span<const double> searched_lengths();

struct BestLength {
  double length, value;
};
// Where values at the searched lengths have their least: the vertex of the parabola through the best and its two
// neighbours, so it is exact for a quadratic, and never beyond what was measured. Nothing when none is better than the
// first.
std::optional<BestLength> best_length(std::span<const double> values);

class LineSearch {
 public:
  static constexpr const char* kStep = "velocity";  // the proposed step, in the state; sent in a search alone

  // `convolves`: whether the model has convolutions, whose curvature is underrated until a secant says so.
  LineSearch(const LaplaceOptions& options, bool convolves);

  // Whether a step that is made now is to be measured.
  bool wants(bool knows_secants) const;
  // What clients fill; nothing when no round of the run can be a search.
  std::vector<ScalarSpec> scalars() const;
  // Adds the step to the state, whether or not it is ever searched.
  void start(State& state, std::shared_ptr<const Layout> layout) const;

  // Whether this round is a search: of the state, or of what it sends.
  bool searching(const auto& state) const { return possible_ && state.scalar(kSearching) != 0.0; }
  // The loss at θ + c·step for each length c.
  void measure(const ClientTask& task, Update& update) const;

  // The next round is a search.
  void begin(State& state) const { state.scalar(kSearching) = 1.0; }
  // Ends it. The step becomes what is to be gone of it. Returns by how much that should lower the objective.
  double finish(ServerTask& task, double prior) const;
  // Whether the last search found no length that was better than none.
  bool stayed(const State& state) const { return reach(state) < 1.0; }
  // By what a step is scaled that is to be searched: the less, the more searches in a row found nothing.
  double reach(const State& state) const { return possible_ ? state.scalar(kReach) : 1.0; }

 private:
  static constexpr const char *kSearching = "searching", *kReach = "reach";

  LineSearchUse use_;
  bool convolves_, possible_;
};

}  // namespace parley
