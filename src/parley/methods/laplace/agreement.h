// Whether local training goes on: it is as good as training in one place while the clients' steps agree, and does
// harm where they do not.
//
// Agreement is ‖Σ w_n Δ_n‖² / Σ w_n ‖Δ_n‖² of their steps Δ_n: 1 when all go the same way, 1/N when each goes its own.
// The product does not send Δ_n alone, so its sum is known by a sketch: every number with a random sign, added up in a
// thousand places (Charikar et al. 2002). In expectation its square is the step's.
#pragma once

#include <span>
#include <vector>

#include "parley/methods/laplace/options.h"
#include "parley/update/update.h"

namespace parley {

class Agreement {
 public:
  // Whether this round's clients train; sent to them.
  static constexpr const char* kWarming = "warming";

  explicit Agreement(const LaplaceOptions& options) : options_(options) {}

  // What clients fill in warm rounds; nothing when there are none.
  std::vector<ChannelSpec> channels() const;
  std::vector<ScalarSpec> scalars() const;
  void start(State& state) const;

  // A client's step, and the mean loss on its way.
  void measure(std::span<const float> step, Update& update) const;
  // In any other round.
  void leave_out(Update& update) const;
  // At the end of a warm round: whether the next one is warm too.
  void judge(ServerTask& task) const;

 private:
  const LaplaceOptions& options_;
};

}  // namespace parley
