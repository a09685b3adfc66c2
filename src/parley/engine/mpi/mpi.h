// Client sides on the ranks of an MPI job: mpirun -np 4 parley run FILE.toml gives the bytes of one process.
//
// Every rank builds the same experiment. Rank 0 is the run: server side, records, metrics, files. In every round it
// sends the others the broadcast, the cohort and what their clients remember; block b of the cohort (kFoldBlock
// clients, the largest first) is answered and folded by rank b mod ranks, and the blocks' sums are merged in order.
//
// Order:    Session -> on rank 0 run with executor(), on the others serve() -> Session ends.
// Threads:  a rank may have several workers; MPI is entered by one at a time.
// Failure:  a rank that fails says why and ends the job; what was checkpointed stays, and --resume goes on.
#pragma once

#include <cstddef>
#include <string>

#include "parley/engine/executor.h"
#include "parley/engine/experiment.h"

namespace parley::mpi {

class Session {
 public:
  // Throws RunError when MPI cannot be started, or not with the threads that are needed.
  Session(int& argc, char**& argv);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  std::size_t rank() const { return rank_; }
  std::size_t ranks() const { return ranks_; }
  std::string library() const;  // "Open MPI v4.1.4"
  // Ends every process of the job.
  [[noreturn]] void abort(int exit_code) const;

 private:
  std::size_t rank_ = 0, ranks_ = 1;
};

// For rank 0: deals the blocks out. Tells the other ranks to end when it is destroyed.
MakeExecutor executor(const Session& session);
// For the other ranks: answers until rank 0 ends.
void serve(const Session& session, const Experiment& experiment, std::size_t threads);

}  // namespace parley::mpi
