// How fast the simulated machines and links are: what a method costs in time, on a network that nobody has here.
//
// Everything is drawn from named streams, by the nodes' numbers alone.
#pragma once

#include <cstdint>
#include <vector>

#include "parley/base/options.h"

namespace parley {

class Pace {
 public:
  // The keys of [network].
  static std::vector<Option> declared();
  // Nodes are numbered 0 … nodes − 1; the server, where there is one, is node `nodes` of a link.
  Pace(const Options& network, std::size_t nodes, std::uint64_t seed);

  double training_seconds(std::size_t node, std::size_t steps) const;
  double transfer_seconds(std::size_t from, std::size_t to, std::size_t bytes) const;
  // Of one client in a round: the model down, training, the update up.
  double turn_seconds(std::size_t node, std::size_t bytes_down, std::size_t steps, std::size_t bytes_up) const {
    return transfer_seconds(speed_.size(), node, bytes_down) + training_seconds(node, steps) +
           transfer_seconds(node, speed_.size(), bytes_up);
  }

 private:
  std::vector<double> speed_;
  double step_seconds_, delay_, bandwidth_, link_spread_;
  std::uint64_t seed_;
};

}  // namespace parley
