#include "parley/methods/fisher.h"

namespace parley {

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
  FisherMeter meter(of, task.model, squares);
  task.trainer.for_each_gradient(task.model, task.data, task.local.batch,
                                 [&](std::span<const float> g, std::size_t examples) { meter.add(g, examples); });
  meter.finish();
}

}  // namespace parley
