#pragma once

#include <vector>

#include "parley/methods/method.h"

namespace parley {

enum class FisherLabels { sampled, exact, empirical };

struct LaplaceOptions {
  double step, momentum, damping, damping_floor, damping_cap, prior, memory, trust, ridge;
  std::size_t warm, factors_every, widest;
  FisherLabels fisher;

  static std::vector<Option> declared();
  explicit LaplaceOptions(const Options& method);

  // Whether the clients of a round train, as a start.
  bool warms_up(std::size_t round) const { return round <= warm; }
  // Whether clients send A and B in a round at one point.
  bool sends_factors(std::size_t round) const { return (round - warm - 1) % factors_every == 0; }
};

}  // namespace parley
