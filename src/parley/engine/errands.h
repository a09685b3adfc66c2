// Who carries invitations to clients and answers back where nobody waits for all of a cohort (engine/buffered): a
// simulated clock (engine/simulated_errands), or a network (wire/network_errands).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "parley/engine/executor.h"
#include "parley/engine/pace.h"
#include "parley/store/run_folder.h"

namespace parley {

// Order:    (ask* -> await -> hand_over)*, from one thread.
// Failure:  await() and hand_over() throw what ends the run.
class Errands {
 public:
  // An answer that can be had.
  struct Ready {
    std::size_t client;
    Broadcast answers;  // what it was sent

    std::size_t version() const { return answers.number(); }
  };
  // Checks an answer, and may change it. Throws RefusedUpdate.
  using Admit = std::function<void(std::size_t position, Update& update)>;

  virtual ~Errands() = default;

  // Sends somebody to work who is not at work.
  virtual void ask(const Invitation& invitation) = 0;
  // Waits until so many answers of those at work can be had; fewer, but at least one, where the others are not worth
  // waiting for.
  virtual std::vector<Ready> await(std::size_t wanted) = 0;
  // Pushes these answers to the fold, in this order, each as the next position: admitted, or with the reason why not.
  // The record of who is admitted is staged before. `round` is the one in which they count.
  virtual void hand_over(std::size_t round, std::span<const Ready> order, const Admit& admit, OrderedFold& fold) = 0;
  // Answers that may wait for their turn in the fold.
  virtual std::size_t window() const = 0;

  // Simulated seconds since the beginning of the run; nothing of a real network's.
  virtual double now() const { return 0.0; }
  // Who is at work, for a checkpoint; null where that does not outlive the process: all are then asked anew.
  virtual Json progress() const { return nullptr; }
  using Invite = std::function<Invitation(std::size_t client, std::size_t version)>;
  virtual void restore(const Json& /*progress*/, const Invite& /*invite*/) {}
};

// What a maker of errands may use; all of it outlives them.
struct ErrandTools {
  Workers& workers;
  DataOf data_of;
  ClientStore& store;
  const Pace& pace;
};
using MakeErrands = std::function<std::unique_ptr<Errands>(const ErrandTools& tools)>;

}  // namespace parley
