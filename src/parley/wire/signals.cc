#include "parley/wire/signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <ctime>

namespace parley::wire {
namespace {

sigset_t both() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

StopOnSignal::StopOnSignal(std::function<void()> stop) {
  const sigset_t set = both();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  waiter_ = std::jthread([stop = std::move(stop), set](const std::stop_token& end) {
    const timespec moment{.tv_sec = 0, .tv_nsec = 200'000'000};
    for (bool asked = false; !end.stop_requested();) {
      if (sigtimedwait(&set, nullptr, &moment) < 0) continue;
      if (asked) ::_exit(130);
      asked = true;
      stop();
    }
  });
}

StopOnSignal::~StopOnSignal() = default;

}  // namespace parley::wire
