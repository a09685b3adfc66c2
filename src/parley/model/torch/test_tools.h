// What the tests of LibTorch models share.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parley/model/gradient_check.h"
#include "parley/model/torch/torch_models.h"

namespace parley::testing {

// A model as a config would make it, with fresh weights.
inline std::unique_ptr<Model> make(const std::string& name, const std::string& backend, const Task& task,
                                   const std::map<std::string, Value>& values = {}) {
  auto registry = native_models();
  add_torch_models(registry);
  const auto& entry = registry.at(name);
  Options options("model", entry.about.options);
  for (const auto& [key, value] : values) options.set(key, value);
  auto model = choose_backend(entry, backend)(options, task);
  if (!model->pretrained()) initialise(*model);
  return model;
}

// Token ids below `vocabulary`.
class RandomText {
 public:
  RandomText(std::size_t rows, const Task& task, std::uint64_t vocabulary) {
    Stream stream(1, "text");
    ids_.resize(rows * static_cast<std::size_t>(task.input_shape[0]));
    for (float& id : ids_) id = static_cast<float>(1 + stream.below(vocabulary - 1));
    for (std::size_t row = 0; row < rows; ++row)
      labels_.push_back(static_cast<std::int32_t>(stream.below(task.outputs)));
  }
  Batch get() const { return {.size = labels_.size(), .inputs = ids_, .labels = labels_}; }

 private:
  std::vector<float> ids_;
  std::vector<std::int32_t> labels_;
};

inline std::vector<float> copy(std::span<const float> values) {
  return {values.begin(), values.end()};
}

inline std::vector<float> predict(Model& model, const Batch& batch) {
  std::vector<float> outputs(batch.size * model.outputs());
  model.predict(batch, outputs);
  return outputs;
}

inline double largest_difference(std::span<const float> a, std::span<const float> b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return largest;
}

// The message of the error that `work` throws.
template <class Kind = InputError, class Work>
std::string refusal(Work work) {
  try {
    work();
  } catch (const Kind& error) {
    return error.what();
  }
  return "(accepted)";
}

}  // namespace parley::testing
