// Who takes part in a round, and in which order they are folded.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "parley/data/partition.h"
#include "parley/methods/method.h"

namespace parley {

using CohortRule = std::function<std::vector<std::size_t>(const CohortTask&)>;

// The clients that the rule names when it is asked for max(1, participation · K) of the K that hold data; the largest
// first, so that a round on several threads does not end waiting for one big client. That order is also the order of
// the sum.
std::vector<std::size_t> draw_cohort(const Partition& partition, double participation, std::uint64_t seed,
                                     std::size_t round, const CohortRule& rule = draw_at_random);

}  // namespace parley
