#include "parley/engine/cohort.h"

#include <algorithm>
#include <cmath>

#include "parley/base/random.h"

namespace parley {

std::vector<std::size_t> draw_cohort(const Partition& partition, double participation, std::uint64_t seed,
                                     std::size_t round) {
  std::vector<std::size_t> cohort;
  for (std::size_t client = 0; client < partition.clients.size(); ++client) {
    if (!partition.clients[client].empty()) cohort.push_back(client);
  }
  const double wanted = std::round(participation * static_cast<double>(cohort.size()));
  const std::size_t count = std::clamp<std::size_t>(static_cast<std::size_t>(wanted), 1, cohort.size());
  if (count < cohort.size()) {
    Stream(seed, "cohort", round).shuffle(std::span(cohort));
    cohort.resize(count);
  }
  std::ranges::sort(cohort, [&](std::size_t a, std::size_t b) {
    const std::size_t size_a = partition.clients[a].size(), size_b = partition.clients[b].size();
    return size_a != size_b ? size_a > size_b : a < b;
  });
  return cohort;
}

}  // namespace parley
