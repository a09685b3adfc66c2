#include "parley/methods/fisher.h"

#include <algorithm>
#include <set>

#include "parley/base/errors.h"

namespace parley {
namespace {

// The first trained entry that no shown layer holds; null when all are covered.
const LayoutEntry* first_unseen(const MethodContext& context) {
  std::set<std::size_t> seen;
  for (const auto& layer : shown_layers(*context.layout)) {
    seen.insert(layer.weight.offset);
    if (layer.bias) seen.insert(layer.bias->offset);
  }
  for (const auto& entry : context.layout->entries()) {
    if (entry.offset < context.layout->trainable() && !seen.contains(entry.offset)) return &entry;
  }
  return nullptr;
}

}  // namespace

FisherMeter::Of FisherMeter::of(const MethodContext& context) {
  if (context.options.text("gradient") == "minibatch") return Of::minibatch;
  if (shown_layers(*context.layout).empty()) {
    fail("method.gradient = \"per_sample\": this model does not show its layers; use \"minibatch\"");
  }
  if (const auto* entry = first_unseen(context)) {
    fail("method.gradient = \"per_sample\": {} is in no dense or convolutional layer; use \"minibatch\"", entry->name);
  }
  return Of::per_sample;
}

FisherMeter::FisherMeter(Of of, Model& model, std::span<float> squares) : of_(of), model_(model), squares_(squares) {
  if (of_ == Of::per_sample) {
    model_.observe([this](const LayerPass& pass) { add_squared_gradients(pass, squares_); });
  }
}

FisherMeter::~FisherMeter() {
  if (of_ == Of::per_sample) model_.observe({});
}

void FisherMeter::add(std::span<const float> gradients, std::size_t examples) {
  examples_ += examples;
  if (of_ == Of::per_sample) return;  // the observer has added them, layer by layer
  const auto weight = static_cast<float>(examples);
  float* sum = squares_.data();
  const float* g = gradients.data();
  const std::size_t n = squares_.size();
  for (std::size_t i = 0; i < n; ++i) sum[i] += weight * g[i] * g[i];
}

void FisherMeter::finish() {
  const float scale = 1.0f / static_cast<float>(examples_);
  for (float& x : squares_) x *= scale;
}

void measure_fisher(FisherMeter::Of of, const ClientTask& task, std::span<float> squares) {
  // A pass in training mode, which a batch norm takes for one more step.
  const auto statistics = task.model.parameters().subspan(task.model.layout().trainable());
  const Flat before(statistics.begin(), statistics.end());
  FisherMeter meter(of, task.model, squares);
  task.trainer.for_each_gradient(task.model, task.data, task.local.batch,
                                 [&](std::span<const float> g, std::size_t examples) { meter.add(g, examples); });
  meter.finish();
  std::ranges::copy(before, statistics.begin());
}

}  // namespace parley
