#include "parley/stages/quantise.h"

#include <algorithm>
#include <cmath>

#include "parley/stages/difference.h"

namespace parley {
namespace {

class Quantise final : public Stage {
 public:
  explicit Quantise(std::int64_t bits) : bits_(static_cast<std::size_t>(bits)) {}

  void forward(const Schema& schema, const Broadcast& broadcast, Update& update, Stream noise) const override {
    // One bit of each number is its sign.
    const auto levels = static_cast<float>((std::size_t{1} << (bits_ - 1)) - 1);
    for_each_difference(schema, broadcast, update, [&](std::size_t channel, std::span<float> difference) {
      float largest = 0.0f;
      for (const float x : difference) largest = std::max(largest, std::abs(x));
      update.encoded_bytes[channel] =
          sizeof(float) * (1 + schema.channels[channel].measured) + (difference.size() * bits_ + 7) / 8;
      if (largest == 0.0f || !std::isfinite(largest)) return;
      const float step = largest / levels;
      for (float& x : difference) {
        // Where the step underflows nothing is left to send.
        const float exact = step > 0.0f ? x / step : 0.0f, below = std::floor(exact);
        const bool up = static_cast<float>(noise.uniform()) < exact - below;
        // The largest number divided by its step may be rounded to just above `levels`, which the bits cannot hold.
        x = step * std::clamp(up ? below + 1.0f : below, -levels, levels);
      }
    });
  }

 private:
  std::size_t bits_;
};

}  // namespace

void add_quantise(StageRegistry& registry) {
  registry.add({.name = "quantise",
                .summary = "Sends updates with a few bits a number, unbiased.",
                .source = "Alistarh et al. 2017",
                .options = {{"quantise_bits", std::int64_t{8}, "bits a number, the sign included", between(2, 16)}}},
               [](const Options& options) { return std::make_unique<Quantise>(options.integer("quantise_bits")); });
}

}  // namespace parley
