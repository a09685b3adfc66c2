#include "parley/base/pool.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace parley {

void run_jobs(std::size_t workers, std::size_t count, const std::function<void(std::size_t, std::size_t)>& job) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> stopped{false};
  std::mutex mutex;
  std::size_t failed_index = count;
  std::exception_ptr failure;
  const auto work = [&](std::size_t worker) {
    while (!stopped.load(std::memory_order_relaxed)) {
      const std::size_t index = next.fetch_add(1);
      if (index >= count) return;
      try {
        job(worker, index);
      } catch (...) {
        const std::lock_guard lock(mutex);
        stopped = true;
        if (index < failed_index) {
          failed_index = index;
          failure = std::current_exception();
        }
      }
    }
  };
  std::vector<std::jthread> threads;
  for (std::size_t worker = 1; worker < std::min(workers, count); ++worker) threads.emplace_back(work, worker);
  work(0);
  threads.clear();  // joins
  if (failure) std::rethrow_exception(failure);
}

}  // namespace parley
