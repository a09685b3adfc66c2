// The executor of a simulation: every client side runs on a thread of this process, with the data that is here.
#pragma once

#include <functional>

#include "parley/engine/executor.h"

namespace parley {

class ThreadExecutor final : public Executor {
 public:
  // Workers and store must outlive it.
  ThreadExecutor(Workers& workers, DataOf data_of, ClientStore& store)
      : workers_(workers), data_of_(std::move(data_of)), store_(store) {}

  std::size_t window() const override { return 2 * workers_.size() + 4; }
  void run(const RoundInProgress& round) override;

 private:
  Workers& workers_;
  DataOf data_of_;
  ClientStore& store_;
};

// A MakeExecutor.
inline std::unique_ptr<Executor> on_threads(Workers& workers, DataOf data_of, ClientStore& store) {
  return std::make_unique<ThreadExecutor>(workers, std::move(data_of), store);
}

}  // namespace parley
