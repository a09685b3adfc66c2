// SIGINT and SIGTERM as a call on a thread, where locks may be taken.
#pragma once

#include <functional>
#include <thread>

namespace parley::wire {

class StopOnSignal {
 public:
  // Construct it before any other thread is started: they must inherit that the signals are blocked. A second signal
  // ends the process at once.
  explicit StopOnSignal(std::function<void()> stop);
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

 private:
  std::jthread waiter_;
};

}  // namespace parley::wire
