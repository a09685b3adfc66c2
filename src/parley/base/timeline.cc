#include "parley/base/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <functional>
#include <map>
#include <set>

namespace parley {
namespace {

std::atomic<Timeline*> current = nullptr;

// Threads come and go with every round; a lane is what one after the other has in the picture.
class Lanes {
 public:
  std::uint32_t take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return next_++;
    return free_.extract(free_.begin()).value();
  }
  void give_back(std::uint32_t lane) {
    const std::lock_guard lock(mutex_);
    free_.insert(lane);
  }

 private:
  std::mutex mutex_;
  std::set<std::uint32_t> free_;
  std::uint32_t next_ = 0;
};

Lanes& lanes_of_process() {
  static Lanes lanes;
  return lanes;
}

std::uint32_t own_lane() {
  struct Own {
    std::uint32_t lane = lanes_of_process().take();
    ~Own() { lanes_of_process().give_back(lane); }
  };
  thread_local const Own own;
  return own.lane;
}

double microseconds(Timeline::Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace

Timeline::Timeline() {
  own_lane();  // the thread that asks for a picture is the first in it
  [[maybe_unused]] Timeline* before = current.exchange(this);
  assert(before == nullptr && "one timeline at a time");
}

Timeline::~Timeline() {
  current = nullptr;
}

void Timeline::add(const Event& event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(event);
}

std::vector<Timeline::Event> Timeline::in_order() const {
  std::vector<Event> events;
  {
    const std::lock_guard lock(mutex_);
    events = events_;
  }
  std::ranges::sort(events, [](const Event& a, const Event& b) {
    if (a.lane != b.lane) return a.lane < b.lane;
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  return events;
}

std::string Timeline::json() const {
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  std::set<std::uint32_t> lanes;
  for (const Event& event : in_order()) {
    if (lanes.insert(event.lane).second) {
      text += fmt::format(
          "{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":{},\"args\":{{\"name\":\"thread {}\"}}}},\n",
          event.lane, event.lane);
    }
    text += fmt::format("{{\"name\":\"{}\",\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f}", event.name,
                        event.lane, microseconds(event.begin - start_), microseconds(event.end - event.begin));
    if (event.number) text += fmt::format(",\"args\":{{\"number\":{}}}", *event.number);
    text += "},\n";
  }
  if (!lanes.empty()) text.erase(text.size() - 2);  // the last comma
  return text + "\n]}\n";
}

std::vector<Timeline::Total> Timeline::totals() const {
  std::map<std::string, Total> by_name;
  std::vector<Event> open;  // what contains the span at hand, on its lane
  for (const Event& event : in_order()) {
    while (!open.empty() && (open.back().lane != event.lane || open.back().end <= event.begin)) open.pop_back();
    const double seconds = microseconds(event.end - event.begin) * 1e-6;
    if (!open.empty()) by_name[open.back().name].seconds -= seconds;
    by_name[event.name].seconds += seconds;
    ++by_name[event.name].spans;
    open.push_back(event);
  }
  std::vector<Total> totals;
  for (auto& [name, total] : by_name) {
    total.name = name;
    totals.push_back(total);
  }
  std::ranges::sort(totals, std::greater<>(), &Total::seconds);
  return totals;
}

std::size_t Timeline::lanes() const {
  std::set<std::uint32_t> lanes;
  for (const Event& event : in_order()) lanes.insert(event.lane);
  return lanes.size();
}

Span::Span(const char* name, std::optional<std::uint64_t> number) {
  if (current.load(std::memory_order_relaxed) == nullptr) return;
  name_ = name;
  number_ = number;
  begin_ = Timeline::Clock::now();
}

Span::~Span() {
  if (name_ == nullptr) return;
  Timeline* timeline = current.load();
  if (timeline != nullptr) timeline->add({name_, number_, own_lane(), begin_, Timeline::Clock::now()});
}

}  // namespace parley
