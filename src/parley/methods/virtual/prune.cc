#include "parley/methods/virtual/prune.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <string_view>
#include <vector>

namespace parley {
namespace {

std::string_view layer_of(const LayoutEntry& entry) {
  return std::string_view(entry.name).substr(0, entry.name.rfind('.'));
}

// χ²/|ξ|, whose order is that of the ratio itself. Where only the mean moved the ratio is infinite.
float squared_snr(float precision, float shift) {
  if (shift == 0.0f) return 0.0f;
  return shift * shift / std::abs(precision);
}

// Returns how many elements are left.
std::size_t prune(double share, std::span<float> precision, std::span<float> shift, std::vector<float>& ratios) {
  const std::size_t size = precision.size();
  const auto dropped = static_cast<std::size_t>(share * static_cast<double>(size));
  ratios.resize(size);
  for (std::size_t i = 0; i < size; ++i) ratios[i] = squared_snr(precision[i], shift[i]);
  std::vector<float> sorted = ratios;
  const auto quantile = sorted.begin() + static_cast<std::ptrdiff_t>(dropped);
  std::ranges::nth_element(sorted, quantile);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < size; ++i) {
    if (ratios[i] < *quantile) {
      precision[i] = shift[i] = 0.0f;
    } else {
      ++kept;
    }
  }
  return kept;
}

}  // namespace

SparseBytes prune_by_snr(const Layout& layout, double share, gauss::NaturalView delta) {
  assert(delta.size() == layout.trainable() && share < 1.0);
  if (share == 0.0) return {.values = delta.size() * sizeof(float)};
  const auto trained = std::ranges::find_if(layout.entries(), [](const auto& e) { return !is_trainable(e.role); });
  const std::string_view output = layer_of(*std::prev(trained));
  SparseBytes bytes;
  std::vector<float> ratios;
  for (auto entry = layout.entries().begin(); entry != trained; ++entry) {
    if (layer_of(*entry) == output) {
      bytes.values += entry->size * sizeof(float);
      continue;
    }
    const std::size_t kept = prune(share, entry->of(delta.precision), entry->of(delta.shift), ratios);
    bytes.values += kept * sizeof(float);
    bytes.places += std::min(kept * sizeof(std::uint32_t), (entry->size + 7) / 8);
  }
  return bytes;
}

}  // namespace parley
