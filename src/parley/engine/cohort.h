// Who takes part in a round, and in which order they are folded.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parley/methods/method.h"

namespace parley {

// max(1, participation · holders), to the nearest whole number.
std::size_t cohort_size(std::size_t holders, double participation);

// The clients that can be asked: those that hold data. Looked up once, so that a round costs what its cohort costs,
// however many clients there are.
class Roster {
 public:
  // `sizes` says how many examples each client holds, and must outlive the roster.
  explicit Roster(std::span<const std::size_t> sizes);

  std::span<const std::size_t> holders() const { return holders_; }
  // The clients that the rule (null: chance) names when it is asked for cohort_size() of them; the largest first, so
  // that a round on several threads does not end waiting for one big client. That order is also the order of the sum.
  std::vector<std::size_t> draw(double participation, std::uint64_t seed, std::size_t round,
                                const CohortRule* rule = nullptr) const;

 private:
  std::span<const std::size_t> sizes_;
  std::vector<std::size_t> holders_;
};

// Largest first, of equals the one with the lower number.
bool folds_before(std::size_t a, std::size_t size_a, std::size_t b, std::size_t size_b);

}  // namespace parley
