// The server's side of a run: it opens rounds, accepts or refuses what clients answer, and closes them with the next
// state. It has a layout and settings; no model, no data (but for a method that learns from examples of the server's
// own).
//
// Order:    construct -> [state() restored] -> (open -> check* from any thread -> close)*
// Failure:  check() throws RefusedUpdate and changes nothing. close() throws RunError when too few were accepted or the
//           new weights are not finite; the state is then that of the round before.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parley/base/secrets.h"
#include "parley/engine/cohort.h"
#include "parley/engine/fold.h"
#include "parley/methods/method.h"
#include "parley/stages/stage.h"

namespace parley {

// Everything it points to must outlive the side made from it.
struct ServerSetup {
  const Method* method;
  const ServerStep* step;
  const Stages* stages;
  std::shared_ptr<const Layout> layout;
  std::span<const float> initial;
  std::uint64_t seed;
  std::size_t clients;          // in the whole federation
  double participation = 1.0;   // of those that hold data
  std::size_t min_clients = 0;  // 0: half of the cohort
  const ServerExamples* own = nullptr;
  Secrets secrets = system_secrets;
};

// A state with theta, and what method, server step and stages add to it.
State starting_state(const ServerSetup& setup);

// A round that waits for answers.
struct OpenRound {
  std::size_t number;
  std::vector<std::size_t> cohort;  // in the order of the sum
  Broadcast broadcast;
};

struct ClosedRound {
  std::map<std::string, double> metrics;  // the method's own
  bool finished = false;                  // the method asks for no further round
};

class ServerSide {
 public:
  explicit ServerSide(const ServerSetup& setup);
  // For a state that is not a new one: that of a model that travels.
  ServerSide(const ServerSetup& setup, State state);

  State& state() { return state_; }
  const State& state() const { return state_; }
  const SharedSchema& schema() const { return schema_; }

  // With the cohort that the rule names; null: the method's own, or chance.
  OpenRound open(std::size_t number, const Roster& roster, const CohortRule* rule = nullptr) const;
  // Throws RefusedUpdate for an answer that does not fit the schema, is not finite, or answers another round.
  void check(const OpenRound& round, const Update& update) const;
  ClosedRound close(const OpenRound& round, FoldedRound& folded);

 private:
  void require_enough(const OpenRound& round, const FoldedRound& folded) const;

  ServerSetup setup_;
  SharedSchema schema_;
  State state_;
};

}  // namespace parley
