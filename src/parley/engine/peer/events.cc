#include "parley/engine/peer/events.h"

#include <cassert>

namespace parley {

void EventQueue::plan(double time, std::size_t node, PeerEvent::Kind kind, std::size_t subject) {
  assert(time >= now_);
  queue_.push({time, node, planned_++, kind, subject});
}

PeerEvent EventQueue::next() {
  assert(!queue_.empty());
  const PeerEvent event = queue_.top();
  queue_.pop();
  now_ = event.time;
  return event;
}

Json EventQueue::progress() const {
  Json events = Json::array();
  for (auto rest = queue_; !rest.empty(); rest.pop()) {
    const PeerEvent& event = rest.top();
    events.push_back({event.time, event.node, event.sequence, event.kind, event.subject});
  }
  return {{"now", now_}, {"planned", planned_}, {"events", events}};
}

void EventQueue::restore(const Json& progress) {
  queue_ = {};
  progress.at("now").get_to(now_);
  progress.at("planned").get_to(planned_);
  for (const auto& event : progress.at("events")) {
    queue_.push({event.at(0).get<double>(), event.at(1).get<std::size_t>(), event.at(2).get<std::size_t>(),
                 event.at(3).get<PeerEvent::Kind>(), event.at(4).get<std::size_t>()});
  }
}

}  // namespace parley
