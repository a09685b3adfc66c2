// The executor of a real federation: the client sides are nodes across a network (wire/node).
//
// All of a cohort train at once. Who has an answer offers it and keeps it; the server takes the answers of `window`
// positions at a time, in the order of the fold, so that its memory does not grow with the cohort. A node that vanishes
// is asked again when it is back.
//
// Threads:  run() on the server's own.
// Failure:  Stopped when the hub is told to stop; the round is as if it had never begun.
#pragma once

#include <cstddef>

#include "parley/base/errors.h"
#include "parley/engine/executor.h"
#include "parley/wire/hub.h"

namespace parley::wire {

// The server was asked to end. Finished rounds are kept.
class Stopped : public Error {
 public:
  using Error::Error;
  int exit_code() const override { return 0; }
};

// When a round ends without all of its cohort, and what an answer weighs.
struct RoundRules {
  double deadline = 0.0;         // seconds; who has not offered an answer by then is left out. 0: none
  std::size_t quorum = 0;        // so many answers are waited for even then; 0: half of the cohort
  std::size_t enough = 0;        // with so many answers nobody else is waited for; 0: all
  std::size_t window = 8;        // answers that are held at a time
  bool uniform_weights = false;  // every answer weighs 1, and not as much as its node holds
};

// An answer as it came, made into one that can be folded but for its check: of this client and to this broadcast, and
// weighing what the client joined with. Throws RefusedUpdate.
struct Sender {
  std::size_t client;
  std::size_t examples;
  double epochs;
};
void read_answer(const Bytes& bytes, const SharedSchema& schema, const Broadcast& broadcast, const Sender& sender,
                 bool uniform_weights, Answer& answer);
// How long the sending of so many bytes may take.
Clock::duration time_to_send(std::size_t length);

// An open round of the hub, with the answers of those of the cohort who give one. `last_accepted` says for each client
// in which round its last answer counted. Throws Stopped when the hub is told to stop, or `outdated` says so.
struct Played {
  std::vector<Counted> accepted;
  std::vector<Turn> turns;  // of everybody who was there to be asked
};
Played play_round(Hub& hub, const Log& log, const RoundRules& rules, const RoundInProgress& round,
                  const std::map<std::size_t, std::size_t>& last_accepted, const std::function<bool()>& outdated = {});

class NetworkExecutor final : public Executor {
 public:
  // All must outlive it.
  NetworkExecutor(Hub& hub, Journal& journal, const Log& log, const RoundRules& rules)
      : hub_(hub), journal_(journal), log_(log), rules_(rules) {}

  std::size_t window() const override { return rules_.window; }
  void run(const RoundInProgress& round) override;
  const std::vector<Turn>* turns() const override { return &turns_; }
  // Of whoever is connected, and answers before the deadline.
  std::optional<ClientResults> survey(const Broadcast& broadcast) override;

 private:
  Hub& hub_;
  Journal& journal_;
  const Log& log_;
  RoundRules rules_;
  std::vector<Turn> turns_;  // of the last round
  std::uint64_t seed_ = 0;   // likewise
};

}  // namespace parley::wire
