// What will happen in simulated time, in order.
#pragma once

#include <queue>
#include <tuple>
#include <vector>

#include "parley/store/run_folder.h"

namespace parley {

struct PeerEvent {
  enum class Kind { arrive, leave, lose, wake };

  double time = 0.0;
  std::size_t node = 0;
  std::size_t sequence = 0;  // of two events at one time and node, the one that was planned first comes first
  Kind kind = Kind::arrive;
  std::size_t subject = 0;  // the model, or the message

  bool operator>(const PeerEvent& other) const {
    return std::tie(time, node, sequence) > std::tie(other.time, other.node, other.sequence);
  }
};

// The clock and what is planned. Times are never before the clock.
class EventQueue {
 public:
  bool empty() const { return queue_.empty(); }
  double now() const { return now_; }

  void plan(double time, std::size_t node, PeerEvent::Kind kind, std::size_t subject);
  // The next event; the clock goes there. REQUIRES !empty().
  PeerEvent next();

  Json progress() const;
  void restore(const Json& progress);

 private:
  std::priority_queue<PeerEvent, std::vector<PeerEvent>, std::greater<>> queue_;
  double now_ = 0.0;
  std::size_t planned_ = 0;
};

}  // namespace parley
