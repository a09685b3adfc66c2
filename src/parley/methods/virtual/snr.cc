#include "parley/methods/virtual/snr.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>
#include <string_view>
#include <vector>

namespace parley {
namespace {

std::string_view layer_of(const LayoutEntry& entry) {
  return std::string_view(entry.name).substr(0, entry.name.rfind('.'));
}

// χ²/|ξ|, whose order is that of the ratio itself; infinite for a signal without noise.
float squared_snr(float precision, float shift) {
  if (shift == 0.0f) return 0.0f;
  return shift * shift / std::abs(precision);
}

void prune(double share, std::span<const float> noise, std::span<float> precision, std::span<float> shift,
           std::vector<float>& ratios) {
  const std::size_t size = precision.size();
  const auto dropped = static_cast<std::size_t>(share * static_cast<double>(size));
  ratios.resize(size);
  for (std::size_t i = 0; i < size; ++i) ratios[i] = squared_snr(noise[i], shift[i]);
  std::vector<float> sorted = ratios;
  const auto quantile = sorted.begin() + static_cast<std::ptrdiff_t>(dropped);
  std::ranges::nth_element(sorted, quantile);
  for (std::size_t i = 0; i < size; ++i) {
    if (ratios[i] < *quantile) precision[i] = shift[i] = 0.0f;
  }
}

}  // namespace

std::vector<SparseSegment> prune_by_snr(const Layout& layout, double share, std::span<const float> noise,
                                        gauss::NaturalView delta) {
  assert(delta.size() == layout.trainable() && share < 1.0);
  if (share == 0.0) return {};
  const auto trained = std::ranges::find_if(layout.entries(), [](const auto& e) { return !is_trainable(e.role); });
  const std::string_view output = layer_of(*std::prev(trained));
  std::vector<SparseSegment> segments;
  std::vector<float> ratios;
  for (auto entry = layout.entries().begin(); entry != trained; ++entry) {
    segments.push_back({entry->size, 0.0f});
    if (layer_of(*entry) == output) continue;
    prune(share, entry->of(noise), entry->of(delta.precision), entry->of(delta.shift), ratios);
  }
  return segments;
}

Layout snr_layout(const Layout& layout) {
  std::vector<LayoutEntry> entries;
  for (const auto& entry : layout.entries()) {
    if (is_trainable(entry.role)) entries.push_back({.name = entry.name, .shape = {kSnrBins}});
  }
  return Layout(std::move(entries));
}

void count_snr(const Layout& layout, std::span<const float> mean, std::span<const float> rho, std::span<float> counts) {
  constexpr float kPerBin = (kMostSnr - kLeastSnr) / kSnrBins;
  for (const auto& entry : layout.entries()) {
    if (!is_trainable(entry.role)) continue;
    for (std::size_t i = entry.offset; i < entry.offset + entry.size; ++i) {
      const float ratio = std::log10(std::abs(mean[i])) - rho[i] * std::numbers::log10e_v<float>;  // −∞ where μ = 0
      const float bin = std::clamp((ratio - kLeastSnr) / kPerBin, 0.0f, kSnrBins - 1.0f);
      ++counts[static_cast<std::size_t>(bin)];
    }
    counts = counts.subspan(kSnrBins);
  }
}

}  // namespace parley
