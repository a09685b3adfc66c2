// Two-sided steps between a method and the sum: forwards on each client's update, backwards on the sum.
//
// A stage knows channels, not methods: what it works on is a channel's difference from the broadcast channel it is
// `relative_to` (or the channel itself, when that is empty).
//
// A stage holds options, never state: what must survive a round (an accountant, an adaptive bound, what error feedback
// has not sent yet) lives in the State or in the client's record, under names that begin with the task's prefix.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parley/base/random.h"
#include "parley/base/registry.h"
#include "parley/base/secrets.h"
#include "parley/update/broadcast.h"
#include "parley/update/record.h"
#include "parley/update/state.h"
#include "parley/update/sum.h"
#include "parley/update/update.h"

namespace parley {

// At a client.
struct ForwardTask {
  const Broadcast& broadcast;
  ClientMemory& memory;
  const std::string& prefix;  // of its names in record and state
  Stream noise;               // of this client and round: the same in every run of the experiment
  const Secrets& secrets;     // never the same
};

// At the server.
struct BackwardTask {
  const Broadcast& broadcast;
  State& state;  // the next one; it takes effect with the round
  const std::string& prefix;
  Stream noise;
  const Secrets& secrets;
};

class Stage {
 public:
  virtual ~Stage() = default;
  // Adds what the stage keeps on the server.
  virtual void start(State& /*state*/, const std::string& /*prefix*/) const {}
  // On the client, after training.
  virtual void forward(const ForwardTask& task, Update& update) const = 0;
  // On the server, after all updates are folded, before the method's server half.
  virtual void backward(const BackwardTask& /*task*/, Sum& /*sum*/) const {}
};

// In the order in which clients apply them.
using Stages = std::vector<std::unique_ptr<Stage>>;
// The prefix of stage number `position`.
std::string stage_prefix(std::size_t position);

// `options` are the resolved keys of [stages].
using MakeStage = std::function<std::unique_ptr<Stage>(const Options& options)>;
using StageRegistry = Registry<MakeStage>;

StageRegistry stages();

}  // namespace parley
