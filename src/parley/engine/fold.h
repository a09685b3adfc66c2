// The thread executor: trains a cohort on worker threads and folds the updates as they come, in cohort order.
//
// The sum does not depend on the number of threads: updates are added in order within fixed blocks of kFoldBlock
// positions, and the blocks' sums are merged in order. (A block is what an MPI rank or an edge server will hand in.)
// Memory: at most `workers` updates in the making and a window of finished ones waiting for their turn.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "parley/update/update.h"

namespace parley {

inline constexpr std::size_t kFoldBlock = 8;

struct Refusal {
  std::size_t position;  // in the cohort
  std::string reason;
};

struct CohortResult {
  Sum sum;
  std::vector<Refusal> refused;  // in cohort order
};

// Fills an update for the client at `position`. A RefusedUpdate leaves that client out; any other exception ends the
// round and is rethrown.
using TrainOne = std::function<void(std::size_t worker, std::size_t position, Update& update)>;
// Called in cohort order, one at a time, after a client has been folded or refused.
using ClientDone = std::function<void(std::size_t position, bool accepted)>;

CohortResult train_and_fold(std::size_t workers, std::size_t cohort, const Schema& schema, const TrainOne& train,
                            const ClientDone& done);

}  // namespace parley
