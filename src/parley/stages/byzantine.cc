#include "parley/stages/byzantine.h"

#include <cmath>

#include "parley/stages/difference.h"
#include "parley/stages/remembered.h"

namespace parley {
namespace {

double root_mean_square(std::span<const float> values) {
  double squares = 0.0;
  for (const float x : values) squares += double{x} * x;
  return values.empty() ? 0.0 : std::sqrt(squares / static_cast<double>(values.size()));
}

class Byzantine final : public Stage {
 public:
  explicit Byzantine(const Options& options)
      : share_(options.real("byzantine_share")),
        scale_(options.real("byzantine_scale")),
        noise_(options.text("byzantine_sends") == "noise") {}

  void forward(const ForwardTask& task, Update& update) const override {
    Stream noise = task.noise;
    if (!turned(task, noise)) return;
    for_each_difference(task.broadcast, update, [&](const ChannelSpec&, std::span<float> difference) {
      // Noise is measured by the step that it stands for, as it would be to go unnoticed.
      const double size = noise_ ? scale_ * root_mean_square(difference) : -scale_;
      for (float& x : difference) x = static_cast<float>(size * (noise_ ? noise.normal() : double{x}));
    });
  }

 private:
  bool turned(const ForwardTask& task, Stream& noise) const {
    const std::string name = task.prefix + "turned";
    if (const Flat* before = remembered(task.memory, name)) return before->front() != 0.0f;
    const bool turned = noise.uniform() < share_;
    task.memory.amend({{name, Flat{turned ? 1.0f : 0.0f}}});
    return turned;
  }

  double share_, scale_;
  bool noise_;
};

}  // namespace

void add_byzantine(StageRegistry& registry) {
  registry.add({.name = "byzantine",
                .summary = "Some clients send something else than they learned: an adversary, for experiments.",
                .source = "Lamport et al. 1982; Blanchard et al. 2017",
                .options = {{"byzantine_share", 0.2, "probability that a client is one of them, from its first turn on",
                             between(0, 1)},
                            {"byzantine_sends",
                             std::string("reversed"),
                             "what they send: their own step backwards, or noise of its size",
                             {},
                             {"reversed", "noise"}},
                            {"byzantine_scale", 1.0, "how many times as long as their own step", above(0.0)}}},
               [](const Options& options) { return std::make_unique<Byzantine>(options); });
}

}  // namespace parley
