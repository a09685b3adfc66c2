#include "parley/base/pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace parley {
namespace {

TEST(RunJobs, RunsEveryIndexOnce) {
  for (const std::size_t workers : {1, 2, 5}) {
    std::vector<std::atomic<int>> count(100);
    run_jobs(workers, count.size(), [&](std::size_t worker, std::size_t index) {
      ASSERT_LT(worker, workers);
      ++count[index];
    });
    for (const auto& c : count) EXPECT_EQ(c, 1);
  }
}

TEST(RunJobs, ZeroJobsAreFine) {
  run_jobs(3, 0, [](std::size_t, std::size_t) { FAIL(); });
}

TEST(RunJobs, RethrowsAJobsException) {
  for (const std::size_t workers : {1, 3}) {
    EXPECT_THROW(run_jobs(workers, 10,
                          [](std::size_t, std::size_t index) {
                            if (index == 4) throw std::runtime_error("four");
                          }),
                 std::runtime_error);
  }
}

}  // namespace
}  // namespace parley
