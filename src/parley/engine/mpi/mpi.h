// Client sides on the ranks of an MPI job: mpirun -np 4 parley run FILE.toml gives the bytes of one process.
//
// Every rank builds the same experiment, of data that are read once a machine. Rank 0 is the run: server side, records,
// metrics, files. In every round it sends the others the broadcast, the cohort and what their clients remember; block b
// of the cohort (kFoldBlock clients, the largest first) is answered and folded by rank b mod ranks, and the blocks'
// sums are merged in order.
//
// Order:    Session -> data, require_same_inputs() -> on rank 0 run with executor(), on the others serve() -> Session
// ends. Threads:  a rank may have several workers; MPI is entered by one at a time. Failure:  a rank that fails says
// why and ends the job; what was checkpointed stays, and --resume goes on.
#pragma once

#include <cstddef>
#include <functional>
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
  // Loads on one rank of each machine; the others there see its copy of the values. REQUIRES the same calls on all
  // ranks. Throws on every rank of the machine what `load` throws on the one.
  TrainTest once_a_machine(const std::function<TrainTest()>& load) const;
  // Throws InputError, on every rank, when one has other settings than rank 0 or has read another version of a file.
  // REQUIRES the same call on all ranks.
  void require_same_inputs(const Experiment& experiment) const;
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
