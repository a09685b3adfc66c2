#include "parley/methods/population.h"

#include <algorithm>

#include "parley/base/random.h"
#include "parley/model/model.h"

namespace parley {
namespace {

constexpr double kNormSpread = 0.1;

void spread_norms(const Layout& layout, std::span<float> weights, Stream& stream) {
  for (const auto& entry : layout.entries()) {
    if (entry.role != Role::norm_scale && entry.role != Role::norm_shift) continue;
    for (float& w : entry.of(weights)) w += static_cast<float>(stream.uniform(-kNormSpread, kNormSpread));
  }
}

}  // namespace

std::shared_ptr<const Layout> population_layout(std::size_t candidates, std::size_t weights) {
  return std::make_shared<const Layout>(std::vector<LayoutEntry>{
      {.name = "candidates", .shape = {static_cast<std::int64_t>(candidates), static_cast<std::int64_t>(weights)}}});
}

Flat first_generation(const Layout& layout, std::span<const float> theta, std::size_t candidates, std::uint64_t seed) {
  const std::size_t weights = layout.trainable();
  Flat population(candidates * weights);
  std::ranges::copy(theta.first(weights), population.begin());
  Flat fresh(layout.size());
  for (std::size_t i = 1; i < candidates; ++i) {
    Stream stream(seed, "first generation", 0, i);
    initialise(layout, fresh, stream);
    spread_norms(layout, fresh, stream);
    std::ranges::copy(std::span(fresh).first(weights), candidate(std::span(population), i, weights).begin());
  }
  return population;
}

}  // namespace parley
