#include "parley/engine/cohort.h"

#include <algorithm>
#include <cmath>

namespace parley {

bool folds_before(std::size_t a, std::size_t size_a, std::size_t b, std::size_t size_b) {
  return size_a != size_b ? size_a > size_b : a < b;
}

std::size_t cohort_size(std::size_t holders, double participation) {
  const double wanted = std::round(participation * static_cast<double>(holders));
  return std::clamp<std::size_t>(static_cast<std::size_t>(wanted), 1, std::max<std::size_t>(holders, 1));
}

Roster::Roster(std::span<const std::size_t> sizes) : sizes_(sizes) {
  for (std::size_t client = 0; client < sizes.size(); ++client) {
    if (sizes[client] > 0) holders_.push_back(client);
  }
}

std::vector<std::size_t> Roster::draw(double participation, std::uint64_t seed, std::size_t round,
                                      const CohortRule* rule) const {
  const std::size_t count = cohort_size(holders_.size(), participation);
  const CohortTask task{.seed = seed, .round = round, .holders = holders_, .wanted = count};
  std::vector<std::size_t> cohort = rule != nullptr ? rule->cohort(task) : draw_at_random(task);
  std::ranges::sort(cohort, [&](std::size_t a, std::size_t b) { return folds_before(a, sizes_[a], b, sizes_[b]); });
  return cohort;
}

}  // namespace parley
