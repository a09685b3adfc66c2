// One copy of a data set's values for all processes of a machine. What is small beside them (labels, targets, names)
// each process has for itself.
//
// Order:  on one process lay_out(), its message goes to the others, they look_up(); the first keeps `room` until all
//         have.
#pragma once

#include <memory>

#include "parley/base/bytes.h"
#include "parley/data/dataset.h"

namespace parley::mpi {

struct LaidOut {
  TrainTest data;                    // the same as before; its values now lie in the memory that others can see
  Bytes message;                     // how to find them, and the rest
  std::shared_ptr<const void> room;  // others can look it up as long as this lives
};

// Throws RunError when the machine has no memory for them.
LaidOut lay_out(const TrainTest& data);
// Nothing where this process may not look into the other's memory (containers apart).
std::optional<TrainTest> look_up(const Bytes& message);

}  // namespace parley::mpi
