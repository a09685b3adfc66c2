// Decentralised SGD: every node trains, then mixes its weights with its neighbours' (Lian et al. 2017).
//
// Mixing is by Metropolis weights, 1/(1 + the larger of the two degrees), among the nodes that finished the round. They
// are doubly stochastic: mixing keeps the mean, and on a complete graph it is the mean. A node waits for its neighbours
// only, so slow ones hold up those around them first. One that joins takes over a neighbour's weights.
//
// As published, x_i ← Σ_j W_ij x_j − η g_i(x_i): what is mixed are the weights from before the step (method.mix =
// "before"; Kiss 2021, Eq. 3.15). The simulated time is the same for both, though the published order could send while
// it trains.
#pragma once

#include "parley/engine/peer/mixing.h"
#include "parley/engine/peer/residents.h"

namespace parley {

class Dpsgd final : public Residents {
 public:
  Dpsgd(const Experiment& experiment, ClientStore& store, std::size_t threads);

  // Every living node once, whatever peer.visits says.
  RoundReport round(std::size_t number, const RoundProgress& done) override;
  Json progress() const override;
  void restore(const Json& progress) override;

 private:
  double now() const;
  void admit(RoundReport& report);
  std::vector<std::size_t> members();
  std::vector<std::vector<std::size_t>> pair_up(const std::vector<std::size_t>& members,
                                                const std::vector<double>& end) const;
  void mix_all(const std::vector<std::size_t>& members, const std::vector<Offer>& offers, RoundReport& report);

  bool mixes_old_weights_;     // and adds the step to the mixture
  std::size_t model_bytes_;    // of a message
  std::vector<bool> joined_;   // by node
  std::vector<double> ready_;  // by node: when its next training can begin
};

}  // namespace parley
