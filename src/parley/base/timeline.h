// Where the time goes: named spans of work on each thread, for `parley run --profile`.
//
// While no Timeline lives, a span costs one load from memory. Spans belong around work of ten microseconds or more.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace parley {

class Timeline {
 public:
  using Clock = std::chrono::steady_clock;

  // From here on the spans of all threads are kept. One at a time.
  Timeline();
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Chrome's trace format, for chrome://tracing or Perfetto.
  std::string json() const;

  // The time of one kind of work, what it asked others to do not counted.
  struct Total {
    std::string name;
    std::size_t spans = 0;
    double seconds = 0.0;
  };
  std::vector<Total> totals() const;  // the longest first
  std::size_t lanes() const;          // how many threads had any at the same time
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  friend class Span;
  struct Event {
    const char* name;
    std::optional<std::uint64_t> number;
    std::uint32_t lane;
    Clock::time_point begin, end;
  };
  void add(const Event& event);
  std::vector<Event> in_order() const;  // lane by lane, whoever began first before what it contains

  Clock::time_point start_ = Clock::now();
  mutable std::mutex mutex_;
  std::vector<Event> events_;
};

// From here to the end of the block, this thread does what `name` says; `number` says for whom (a client, a round).
class Span {
 public:
  // REQUIRES a name that outlives the timeline, such as a literal.
  explicit Span(const char* name, std::optional<std::uint64_t> number = {});
  ~Span();
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  const char* name_ = nullptr;  // null: nobody listens
  std::optional<std::uint64_t> number_;
  Timeline::Clock::time_point begin_;
};

}  // namespace parley
