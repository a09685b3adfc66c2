#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "parley/methods/method.h"

namespace parley {

enum class FisherLabels { sampled, exact, empirical };
// Of layers that share their weights between positions (convolutions): which sums are taken before the second moments.
enum class Positions { expand, reduce, mixed };

// When the length of a step is measured, by a round of its own.
enum class LineSearchUse { never, automatic, always };

struct LaplaceOptions {
  double step, momentum, damping, damping_floor, damping_cap, prior, memory, trust, ridge, agreement;
  std::size_t warm, factors_every, factor_bits, rank, widest, secants, local_steps, personal_steps;
  FisherLabels fisher;
  Positions positions;
  LineSearchUse line_search;
  bool kfac;      // false: B is a multiple of I
  bool evidence;  // whether the marginal likelihood chooses the prior
  double participation;

  static std::vector<Option> declared();
  // `examples`: of all clients.
  LaplaceOptions(const Options& method, const Options& server, std::size_t examples);

  // Only gradients of the same examples, at one point, differ by what a step did.
  bool uses_secants() const { return secants > 0 && participation == 1.0 && local_steps == 1; }
  // Of the server's step, as KL: local_steps of those that clients take, one after the other.
  double whole_trust() const { return trust * static_cast<double>(local_steps * local_steps); }
  // A cohort that is a small share of the clients has a noisy gradient: shorter steps average over more of them.
  double step_size() const {
    const double whole = step >= 0.0 ? step : uses_secants() ? 1.0 : 0.25;
    return whole * std::min(1.0, 2.0 * participation);
  }
  double factor_memory() const { return memory >= 0.0 ? memory : std::max(0.5, 1.0 - participation); }
  // Losses of different cohorts do not tell whether a step was good.
  bool adapts_damping() const { return participation == 1.0; }
  // The structured product adds no more than `ridge` to A: the rounding of a byte could make it indefinite.
  std::size_t warm_bits() const { return std::max<std::size_t>(16, factor_bits); }
  // Of the sketch by which A is known of a layer with so many inputs; 0: A is whole. A number of a sketch takes four
  // bytes and one of A two, so 256 directions of 1,024 inputs cost as much as A.
  std::size_t rank_of(std::size_t width) const {
    constexpr std::size_t kWide = 1024, kRank = 256;
    if (rank == 0) return width > kWide ? kRank : 0;
    return width > rank ? rank : 0;
  }
  // Whether clients send A and B in a round at one point, before which there were so many others.
  bool sends_factors(double points) const { return static_cast<std::size_t>(points) % factors_every == 0; }
};

// By what a step of a predicted KL divergence is scaled to keep to a limit; 0: none.
inline double shrink_to(double limit, double kl) {
  return limit > 0.0 && kl > limit ? std::sqrt(limit / kl) : 1.0;
}

}  // namespace parley
