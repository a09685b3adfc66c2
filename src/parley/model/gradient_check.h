// Tools for the tests of models: random batches, and gradients by central differences.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "parley/base/random.h"
#include "parley/model/model.h"

namespace parley::testing {

// A batch that owns its numbers: inputs N(0, 1), labels or targets at random.
class RandomBatch {
 public:
  RandomBatch(std::size_t rows, const Task& task, std::uint64_t seed = 1) : rows_(rows) {
    Stream stream(seed, "batch");
    std::size_t features = 1;
    for (const auto extent : task.input_shape) features *= static_cast<std::size_t>(extent);
    inputs_.resize(rows * features);
    for (float& x : inputs_) x = static_cast<float>(stream.normal());
    if (task.loss == Loss::cross_entropy) {
      labels_.resize(rows);
      for (auto& y : labels_) y = static_cast<std::int32_t>(stream.below(task.outputs));
    } else {
      targets_.resize(rows * task.outputs);
      for (float& t : targets_) t = static_cast<float>(stream.normal());
    }
  }

  Batch get() const { return {.size = rows_, .inputs = inputs_, .labels = labels_, .targets = targets_}; }

 private:
  std::size_t rows_;
  std::vector<float> inputs_;
  std::vector<std::int32_t> labels_;
  std::vector<float> targets_;
};

inline void initialise(Model& model, std::uint64_t seed = 7) {
  Stream stream(seed, "init");
  parley::initialise(model.layout(), model.parameters(), stream);
}

// ‖g − fd‖ / ‖fd‖ over every `stride`-th trainable parameter, fd by central differences of `step`.
// Training noise is the same in every evaluation.
inline double gradient_error(Model& model, const Batch& batch, double step, std::size_t stride = 1) {
  const Stream noise(3, "noise");
  const auto loss = [&] {
    model.reseed(noise);
    return model.backward(batch);
  };
  loss();
  const std::vector<float> gradients(model.gradients().begin(), model.gradients().end());
  double error = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < model.layout().trainable(); i += stride) {
    float& x = model.parameters()[i];
    const float before = x;
    x = static_cast<float>(before + step);
    const double up = loss(), high = x;
    x = static_cast<float>(before - step);
    const double down = loss(), low = x;
    x = before;
    const double expected = (up - down) / (high - low);
    error += (gradients[i] - expected) * (gradients[i] - expected);
    norm += expected * expected;
  }
  return std::sqrt(error / norm);
}

}  // namespace parley::testing
