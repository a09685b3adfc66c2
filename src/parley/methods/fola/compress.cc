#include "parley/methods/fola/compress.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace parley {

std::vector<SparseSegment> compress_precision(const Layout& layout, double share, std::span<float> precision) {
  std::vector<SparseSegment> segments;
  if (share >= 1.0) return segments;
  std::vector<std::uint32_t> order;
  for (const auto& entry : layout.entries()) {
    const auto values = entry.of(precision);
    const auto kept = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
    order.resize(values.size());
    std::iota(order.begin(), order.end(), 0u);
    // Ties go by position, so that the same precision always keeps the same places.
    std::nth_element(
        order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
        [&](std::uint32_t a, std::uint32_t b) { return values[a] != values[b] ? values[a] > values[b] : a < b; });
    const auto rest = std::span(order).subspan(kept);
    double sum = 0.0;
    std::ranges::sort(rest);  // the order of the sum, and so its bits, must not depend on nth_element
    for (const auto i : rest) sum += values[i];
    const auto mean = static_cast<float>(rest.empty() ? 0.0 : sum / static_cast<double>(rest.size()));
    for (const auto i : rest) values[i] = mean;
    segments.push_back({values.size(), mean});
  }
  return segments;
}

}  // namespace parley
