// Who runs the client sides of a round, wherever they are: threads of this process (engine/threads), and in time MPI
// ranks and nodes across a network.
#pragma once

#include <functional>

#include "parley/engine/fold.h"
#include "parley/engine/server_side.h"
#include "parley/engine/workers.h"
#include "parley/store/client_store.h"

namespace parley {

// A round as those see it who have it answered.
struct RoundInProgress {
  const OpenRound& round;
  std::function<Invitation(std::size_t position)> invitation;
  std::function<void(const Update&)> check;  // throws RefusedUpdate; from any thread
  OrderedFold& fold;
};

// What was measured of a client that was asked.
struct Turn {
  std::size_t client;
  double seconds;         // from the invitation to the whole answer, or until nobody waited any longer
  double training = 0.0;  // of these, by the client's own clock; 0 where it did not answer
  std::size_t steps = 0;  // it took; 0 where it did not answer
};

class Executor {
 public:
  virtual ~Executor() = default;
  // Answers that may wait for their turn in the fold.
  virtual std::size_t window() const = 0;
  // Has every position of the cohort answered, and pushes each answer, or the reason why there is none, to the fold.
  // An accepted client's record is staged in the store before its answer is pushed. Throws what ends the round:
  // anything but a RefusedUpdate.
  virtual void run(const RoundInProgress& round) = 0;
  // How long those took who were asked in the last run(); null where clients are simulated, and no clock says it.
  virtual const std::vector<Turn>* turns() const { return nullptr; }
  // What the broadcast model does on each client's own test data, where these are not here; nothing where they are.
  virtual std::optional<ClientResults> survey(const Broadcast& /*broadcast*/) { return {}; }
  // The chunks of the experiment's test set under these weights, in order, with whoever can help; `here` does the
  // chunks [begin, end) on this process alone.
  using TestChunks = std::function<std::vector<Evaluation>(std::size_t begin, std::size_t end)>;
  virtual std::vector<Evaluation> test(std::span<const float> /*theta*/, std::size_t chunks, const TestChunks& here) {
    return here(0, chunks);
  }
};

// What a client holds.
using DataOf = std::function<OwnData(std::size_t client)>;
// Workers, data and store must outlive the executor.
using MakeExecutor = std::function<std::unique_ptr<Executor>(Workers& workers, DataOf data_of, ClientStore& store)>;

}  // namespace parley
