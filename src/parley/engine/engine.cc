#include "parley/engine/engine.h"

#include "parley/base/errors.h"
#include "parley/engine/buffered.h"
#include "parley/engine/federation.h"
#include "parley/engine/peer/peers.h"

namespace parley {

std::unique_ptr<Engine> make_engine(const Experiment& experiment, ClientStore& store, std::size_t threads,
                                    const MakeExecutor& make_executor, const MakeErrands& make_errands) {
  if (experiment.settings.server.text("rounds") == "buffered") {
    if (make_executor && !make_errands) {
      fail(
          "server.rounds = \"buffered\": not on the ranks of a cluster; use \"synchronous\", or run it without mpirun");
    }
    return std::make_unique<Buffered>(experiment, store, threads, make_errands ? make_errands : simulate);
  }
  if (!experiment.settings.among_peers) {
    return std::make_unique<Federation>(experiment, store, threads, make_executor ? make_executor : on_threads);
  }
  return peers().at(experiment.settings.method.text("name")).make.make(experiment, store, threads);
}

}  // namespace parley
