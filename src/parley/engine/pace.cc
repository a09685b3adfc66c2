#include "parley/engine/pace.h"

#include <algorithm>
#include <cmath>

#include "parley/base/random.h"

namespace parley {

std::vector<Option> Pace::declared() {
  return {
      {"step_seconds", 0.01, "simulated seconds of a training step at a node of ordinary speed", above(0.0)},
      {"speed_spread", 0.0, "standard deviation of the logarithm of the nodes' speeds", at_least(0.0)},
      {"delay", 0.05, "simulated seconds before the first byte arrives", at_least(0.0)},
      {"bandwidth", 1e6, "bytes a simulated second over an ordinary link", above(0.0)},
      {"link_spread", 0.0, "standard deviation of the logarithm of the links' bandwidths", at_least(0.0)},
  };
}

Pace::Pace(const Options& network, std::size_t nodes, std::uint64_t seed)
    : step_seconds_(network.real("step_seconds")),
      delay_(network.real("delay")),
      bandwidth_(network.real("bandwidth")),
      link_spread_(network.real("link_spread")),
      seed_(seed) {
  Stream speeds(seed, "speed");
  for (std::size_t node = 0; node < nodes; ++node) {
    speed_.push_back(std::exp(network.real("speed_spread") * speeds.normal()));
  }
}

double Pace::training_seconds(std::size_t node, std::size_t steps) const {
  return static_cast<double>(steps) * step_seconds_ / speed_[node];
}

double Pace::transfer_seconds(std::size_t from, std::size_t to, std::size_t bytes) const {
  Stream link(seed_, "link", std::min(from, to), std::max(from, to));
  return delay_ + static_cast<double>(bytes) / (bandwidth_ * std::exp(link_spread_ * link.normal()));
}

}  // namespace parley
