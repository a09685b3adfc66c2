// A fixed number of worker threads that share out numbered jobs.
#pragma once

#include <cstddef>
#include <functional>

namespace parley {

// Runs job(worker, index) for every index in [0, count), the indices handed out in rising order to `workers` threads
// (worker 0 is the calling thread). Blocks until all are done. When a job throws, no further index is handed out, and
// the exception of the lowest failing index is rethrown here.
void run_jobs(std::size_t workers, std::size_t count, const std::function<void(std::size_t, std::size_t)>& job);

}  // namespace parley
