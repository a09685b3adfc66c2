// Who takes part in a round, and in which order they are folded.
#pragma once

#include <cstdint>
#include <vector>

#include "parley/data/partition.h"

namespace parley {

// max(1, participation · K) clients drawn without replacement from the K that hold data, by (seed, round) alone; the
// largest first, so that a round on several threads does not end waiting for one big client. That order is also the
// order of the sum.
std::vector<std::size_t> draw_cohort(const Partition& partition, double participation, std::uint64_t seed,
                                     std::size_t round);

}  // namespace parley
