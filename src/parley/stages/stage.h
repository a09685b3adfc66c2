// Two-sided steps between a method and the sum: forwards on each client's update, backwards on the sum.
//
// A stage knows channels, not methods: what it works on is a channel's difference from the broadcast channel it is
// `relative_to` (or the channel itself, when that is empty).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parley/base/random.h"
#include "parley/base/registry.h"
#include "parley/update/state.h"
#include "parley/update/update.h"

namespace parley {

class Stage {
 public:
  virtual ~Stage() = default;
  // On the client, after training. `noise` is a stream of this client and round.
  virtual void forward(const Schema& schema, const Broadcast& broadcast, Update& update, Stream noise) const = 0;
  // On the server, after all updates are folded, before the method's server half.
  virtual void backward(const Broadcast& /*broadcast*/, Sum& /*sum*/, Stream /*noise*/) const {}
};

// `options` are the resolved keys of [stages].
using MakeStage = std::function<std::unique_ptr<Stage>(const Options& options)>;
using StageRegistry = Registry<MakeStage>;

StageRegistry stages();

}  // namespace parley
