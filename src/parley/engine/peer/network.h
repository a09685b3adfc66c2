// The simulated network that peers live in: who is linked to whom, who is there when, and how fast all that is.
//
// Everything is drawn once, from named streams; what it answers depends on the simulated time alone, so a resumed run
// finds the same network.
#pragma once

#include <cstdint>
#include <vector>

#include "parley/engine/pace.h"
#include "parley/engine/peer/graph.h"

namespace parley {

class Network {
 public:
  // The keys of [peer].
  static std::vector<Option> declared();
  // `sizes`: how many examples each client holds; those without any take no part. Throws InputError when the others
  // cannot all reach each other.
  Network(const Options& peer, const Pace& pace, const Options& graph, const GraphRegistry& kinds,
          const std::vector<std::size_t>& sizes, std::uint64_t seed);

  // Those that take part, in rising order.
  const std::vector<std::size_t>& nodes() const { return nodes_; }
  bool alive(std::size_t node, double time) const { return joins_[node] <= time && time < dies_[node]; }
  double dies(std::size_t node) const { return dies_[node]; }
  // The neighbours that are there at this time, in rising order.
  std::vector<std::size_t> neighbours(std::size_t node, double time) const;
  // Everyone who is there at this time, in rising order.
  std::vector<std::size_t> living(double time) const;
  // The first moment at or after `time` at which anyone is there; infinite when all are dead.
  double next_presence(double time) const;

  const Pace& pace() const { return pace_; }

 private:
  void draw_lifetimes(const Options& peer, std::uint64_t seed);

  Graph graph_;
  std::vector<std::size_t> nodes_;
  std::vector<double> joins_, dies_;
  Pace pace_;
};

}  // namespace parley
