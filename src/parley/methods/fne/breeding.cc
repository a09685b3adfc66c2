#include "parley/methods/fne/breeding.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <string_view>

namespace parley {
namespace {

// The layer an entry belongs to: "fc1" of "fc1.bias".
std::string_view layer_of(const LayoutEntry& entry) {
  return std::string_view(entry.name).substr(0, entry.name.rfind('.'));
}

// Weights that are passed over before the next that mutates, each with probability `chance`: one draw for each mutation
// and not for each weight.
std::size_t passed_over(double chance, std::size_t most, Stream& stream) {
  if (chance >= 1.0) return 0;
  const double gap = std::log(1.0 - stream.uniform()) / std::log1p(-chance);
  return gap < static_cast<double>(most) ? static_cast<std::size_t>(gap) : most;
}

}  // namespace

std::vector<std::uint32_t> kernelwise_groups(const Layout& layout) {
  std::vector<std::uint32_t> groups(layout.trainable());
  std::map<std::string_view, std::uint32_t> first_unit;  // of each dense layer
  std::uint32_t next = 0;
  for (const auto& entry : layout.entries()) {
    if (!is_trainable(entry.role)) continue;
    const auto of_entry = entry.of(std::span(groups));
    const auto dense = first_unit.find(layer_of(entry));
    if (entry.role == Role::bias && dense != first_unit.end()) {
      for (std::size_t unit = 0; unit < entry.size; ++unit) {
        of_entry[unit] = dense->second + static_cast<std::uint32_t>(unit);
      }
      continue;
    }
    const std::size_t rank = entry.shape.size();
    const std::size_t inputs = rank < 2 ? 1 : entry.size / static_cast<std::size_t>(entry.shape[0]);
    const std::size_t positions = rank < 3 ? 1 : inputs / static_cast<std::size_t>(entry.shape[1]);
    for (std::size_t i = 0; i < entry.size; ++i) {
      of_entry[i] = next + static_cast<std::uint32_t>(rank < 3 ? i / inputs : i % positions);
    }
    if (rank == 2) first_unit[layer_of(entry)] = next;
    next += static_cast<std::uint32_t>(rank < 3 ? entry.size / inputs : positions);
  }
  return groups;
}

Crossover::Crossover(Kind kind, const Layout& layout) : kind_(kind) {
  if (kind_ != Kind::kernelwise) return;
  group_ = kernelwise_groups(layout);
  groups_ = *std::ranges::max_element(group_) + std::size_t{1};
}

void Crossover::cross_groups(std::span<const float> a, std::span<const float> b, Stream& stream,
                             std::span<float> child) const {
  std::vector<std::uint8_t> from_a(groups_);
  for (auto& coin : from_a) coin = static_cast<std::uint8_t>(stream.bits() >> 63);
  for (std::size_t i = 0; i < child.size(); ++i) child[i] = from_a[group_[i]] ? a[i] : b[i];
}

void Crossover::cross(std::span<const float> a, std::span<const float> b, Stream& stream,
                      std::span<float> child) const {
  assert(a.size() == child.size() && b.size() == child.size());
  const std::size_t n = child.size();
  // The equations count i from 1.
  switch (kind_) {
    case Kind::halving:  // eq. 5.1
      for (std::size_t i = 0; i < n; ++i) child[i] = i + 1 <= n / 2 ? a[i] : b[i];
      return;
    case Kind::interleave:  // eq. 5.2
      for (std::size_t i = 0; i < n; ++i) child[i] = (i + 1) % 2 == 0 ? a[i] : b[i];
      return;
    case Kind::mean:  // eq. 5.3
      for (std::size_t i = 0; i < n; ++i) child[i] = 0.5f * (a[i] + b[i]);
      return;
    case Kind::kernelwise: return cross_groups(a, b, stream, child);
  }
}

void Mutation::mutate(double boost, Stream& stream, std::span<float> weights) const {
  const double chance = std::min(1.0, chance_ * boost);
  if (chance <= 0.0) return;
  const double rate = boost * rate_ / 100.0, offset = boost * offset_;
  const std::size_t n = weights.size();
  for (std::size_t i = passed_over(chance, n, stream); i < n; i += 1 + passed_over(chance, n, stream)) {
    const bool multiply = kind_ == Kind::multiply || (kind_ == Kind::mixture && stream.uniform() < 0.5);
    if (multiply) {
      weights[i] *= static_cast<float>(stream.uniform(1.0 - rate, 1.0 + rate));
    } else {
      weights[i] += static_cast<float>(stream.uniform(-offset, offset));
    }
  }
}

}  // namespace parley
