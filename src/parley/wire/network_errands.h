// Errands across a network, for rounds that do not wait for all: nodes work on the model that they were sent, and who
// has an answer offers it whenever that is. A node that vanishes is asked anew when it is back, with the newest model;
// so are all when the server was killed.
//
// Threads:  the server's own.
// Failure:  Stopped when the hub is told to stop.
#pragma once

#include "parley/engine/errands.h"
#include "parley/wire/network_executor.h"

namespace parley::wire {

class NetworkErrands final : public Errands {
 public:
  // All must outlive it. `rules.enough` does not count: the buffer says it.
  NetworkErrands(Hub& hub, Journal& journal, const Log& log, const RoundRules& rules)
      : hub_(hub), journal_(journal), log_(log), rules_(rules) {}

  void ask(const Invitation& invitation) override;
  std::vector<Ready> await(std::size_t wanted) override;
  void hand_over(std::size_t round, std::span<const Ready> order, const Admit& admit, OrderedFold& fold) override;
  std::size_t window() const override { return rules_.window; }

 private:
  enum class Status { away, training, offered, sending, arrived, refused };
  struct Place {
    Broadcast sent;
    Status status = Status::away;
    std::size_t arrival = 0;  // offered or refused: the how manieth
    std::size_t length = 0;
    double epochs = 0.0;
    Clock::time_point until = {};  // sending: when that takes too long
    Bytes bytes = {};              // arrived
    std::string reason = {};       // refused
  };

  void invite(std::size_t client, Place& place);
  // Waits a moment for something to happen, and takes note of it.
  void listen();
  void handle(Event& event);
  void refuse(Place& place, const std::string& reason);
  std::vector<std::pair<std::size_t, std::size_t>> finished() const;  // (arrival, client), the first first

  Hub& hub_;
  Journal& journal_;
  const Log& log_;
  RoundRules rules_;
  std::optional<Broadcast> newest_;
  std::map<std::size_t, std::size_t> last_accepted_;
  std::map<std::size_t, Place> places_;  // of the clients at work
  std::size_t arrivals_ = 0;
};

}  // namespace parley::wire
