#include "parley/stages/quantise.h"

#include <algorithm>
#include <cmath>

#include "parley/stages/difference.h"

namespace parley {
namespace {

class Quantise final : public Stage {
 public:
  explicit Quantise(std::int64_t bits) : bits_(static_cast<std::size_t>(bits)) {}

  void forward(const ForwardTask& task, Update& update) const override {
    Stream noise = task.noise;
    for_each_difference(task.broadcast, update, [&](const ChannelSpec& spec, std::span<float> difference) {
      if (!std::ranges::all_of(difference, [](float x) { return std::isfinite(x); })) return;  // for the check
      float largest = 0.0f;
      for (const float x : difference) largest = std::max(largest, std::abs(x));
      const float step = largest / levels();
      const std::vector<std::int16_t> codes = round_at_random(difference, step, noise);
      for (std::size_t i = 0; i < codes.size(); ++i) difference[i] = step * static_cast<float>(codes[i]);
      const auto measured = std::span<const float>(update[spec.name]).last(spec.measured());
      update.pack(spec.name, pack_levels(bits_, step, codes, measured));
    });
  }

 private:
  // One bit of each number is its sign.
  float levels() const { return static_cast<float>((std::size_t{1} << (bits_ - 1)) - 1); }

  std::vector<std::int16_t> round_at_random(std::span<const float> difference, float step, Stream& noise) const {
    std::vector<std::int16_t> codes(difference.size(), 0);
    if (step == 0.0f) return codes;  // where the step underflows nothing is left to send
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const float exact = difference[i] / step, below = std::floor(exact);
      const bool up = static_cast<float>(noise.uniform()) < exact - below;
      // The largest number divided by its step may be rounded to just above levels(), which the bits cannot hold.
      codes[i] = static_cast<std::int16_t>(std::clamp(up ? below + 1.0f : below, -levels(), levels()));
    }
    return codes;
  }

  std::size_t bits_;
};

}  // namespace

void add_quantise(StageRegistry& registry) {
  registry.add({.name = "quantise",
                .summary = "Sends updates with a few bits per number, unbiased.",
                .source = "Alistarh et al. 2017",
                .options = {{"quantise_bits", std::int64_t{8}, "bits per number, the sign included", between(2, 16)}}},
               [](const Options& options) { return std::make_unique<Quantise>(options.integer("quantise_bits")); });
}

}  // namespace parley
