// The server's step after the sum: from the old weights towards the clients' aggregate.
//
// "Mean + Adam" is composition: a method produces a target, the step decides how far to go. With the pseudo-gradient
// Δ = target − θ these are FedAvgM (Hsu et al. 2019) and FedAdam, FedAdagrad, FedYogi (Reddi et al. 2021, Alg. 2).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parley/base/registry.h"

namespace parley {

class ServerStep {
 public:
  virtual ~ServerStep() = default;
  struct Slot {
    std::string name;
    float initial;
  };
  // The vectors the step remembers between rounds, kept in the run's state.
  virtual std::vector<Slot> slots() const = 0;
  // Moves θ; all spans have one size, `slots` in the order of slots().
  virtual void apply(std::span<float> theta, std::span<const double> target,
                     std::span<const std::span<float>> slots) const = 0;
};

// `server` are the resolved keys of [server].
using MakeServerStep = std::function<std::unique_ptr<ServerStep>(const Options& server)>;
using ServerStepRegistry = Registry<MakeServerStep>;

ServerStepRegistry server_steps();

}  // namespace parley
