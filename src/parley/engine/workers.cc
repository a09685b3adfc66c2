#include "parley/engine/workers.h"

#include "parley/base/pool.h"

namespace parley {

Workers::Workers(const ClientSetup& setup, std::size_t threads) {
  do {
    sides_.push_back(std::make_unique<ClientSide>(setup, sides_.size()));
  } while (sides_.size() < threads && !sides_.front()->exclusive());
}

void Workers::run(std::size_t count, const Job& job) {
  run_jobs(sides_.size(), count, [&](std::size_t worker, std::size_t index) { job(*sides_[worker], index); });
}

}  // namespace parley
