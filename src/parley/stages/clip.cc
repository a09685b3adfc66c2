#include "parley/stages/clip.h"

#include <cmath>
#include <utility>

#include "parley/stages/difference.h"

namespace parley {
namespace {

class Clip final : public Stage {
 public:
  explicit Clip(double norm) : norm_(norm) {}

  void forward(const ForwardTask& task, Update& update) const override {
    double squared = 0.0;
    for_each_difference(task.broadcast, std::as_const(update), [&](const auto&, std::span<const float> difference) {
      for (const float x : difference) squared += double{x} * x;
    });
    const double norm = std::sqrt(squared);
    if (!std::isfinite(norm) || norm <= norm_) return;  // what is not finite is for the check of the update
    const auto factor = static_cast<float>(norm_ / norm);
    for_each_difference(task.broadcast, update, [&](const auto&, std::span<float> difference) {
      for (float& x : difference) x *= factor;
    });
  }

 private:
  double norm_;
};

}  // namespace

void add_clip(StageRegistry& registry) {
  registry.add(
      {.name = "clip",
       .summary = "Bounds the L2 norm of what a client changes.",
       .source = "McMahan et al. 2018",
       .options = {{"clip_norm", 1.0, "largest L2 norm of an update's difference from the broadcast", above(0.0)}}},
      [](const Options& options) { return std::make_unique<Clip>(options.real("clip_norm")); });
}

}  // namespace parley
