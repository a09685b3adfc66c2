#include "parley/engine/cohort.h"

#include <algorithm>
#include <cmath>

namespace parley {

std::vector<std::size_t> draw_cohort(const Partition& partition, double participation, std::uint64_t seed,
                                     std::size_t round, const CohortRule& rule) {
  std::vector<std::size_t> holders;
  for (std::size_t client = 0; client < partition.clients.size(); ++client) {
    if (!partition.clients[client].empty()) holders.push_back(client);
  }
  const double wanted = std::round(participation * static_cast<double>(holders.size()));
  const std::size_t count = std::clamp<std::size_t>(static_cast<std::size_t>(wanted), 1, holders.size());
  std::vector<std::size_t> cohort = rule({.seed = seed, .round = round, .holders = holders, .wanted = count});
  std::ranges::sort(cohort, [&](std::size_t a, std::size_t b) {
    const std::size_t size_a = partition.clients[a].size(), size_b = partition.clients[b].size();
    return size_a != size_b ? size_a > size_b : a < b;
  });
  return cohort;
}

}  // namespace parley
