// What becomes of a model that visits a node: it is tested, trained and tested again, and carries away what it learned.
// The same in simulated time (Walk) and between machines (wire/peer).
//
// Threads:  visit() from any, one at a time for each client side; the rest from one.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parley/engine/peer/nodes.h"
#include "parley/engine/peer/traveller.h"

namespace parley {

// What a visit brought.
struct VisitResult {
  Update update;
  std::string refusal;  // empty when the update was accepted
  NodeTest before, after;
};

class Hosting {
 public:
  // The experiment must outlive it. REQUIRES experiment.network. `workers`: client sides that visit() will be given.
  Hosting(const Experiment& experiment, std::size_t workers);

  const WalkOptions& options() const { return options_; }
  const SharedSchema& schema() const { return server_.schema(); }
  const NodeData& nodes() const { return nodes_; }
  std::size_t visits_a_round() const { return visits_a_round_; }

  // Where the models begin, in their order.
  std::vector<std::size_t> first_hosts() const;
  // The first is what a server would start from; the others have streams, and where they are drawn weights, of their
  // own.
  Traveller new_traveller(std::size_t number, std::size_t host) const;
  // The classes that a node says it holds.
  std::vector<bool> says_present(std::size_t node) const;

  // At the model's host.
  VisitResult visit(ClientSide& side, const Traveller& traveller);
  // The visit ends. Throws RunError when the average of a full buffer is not finite.
  void take_leave(Traveller& traveller, VisitResult visit) const;

 private:
  // A worker's model that drops out `thinning` times less than [model] says (π/σ, Kiss 2021, §6.3).
  Model& thinned(ClientSide& side, std::size_t thinning);

  const Experiment& experiment_;
  WalkOptions options_;
  NodeData nodes_;
  std::size_t visits_a_round_;
  ServerSide server_;                                                   // what every traveller's own starts as
  std::vector<std::map<std::size_t, std::unique_ptr<Model>>> thinned_;  // by worker, then by thinning
};

}  // namespace parley
