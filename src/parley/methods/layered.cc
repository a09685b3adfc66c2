#include "parley/methods/layered.h"

#include "parley/model/curvature.h"

namespace parley {
namespace {

std::int64_t extent(std::size_t n) {
  return static_cast<std::int64_t>(n);
}

}  // namespace

LayerMatrices::LayerMatrices(std::span<const Layer> shown, std::size_t widest) {
  std::vector<LayoutEntry> inputs, outputs;
  for (const auto& layer : shown) {
    const LayerMatrix matrix{layer};
    const bool fits = matrix.width() <= widest && matrix.rows() <= widest;
    places_.push_back(fits ? layers_.size() : shown.size());
    if (!fits) continue;
    inputs.push_back({.name = matrix.name(), .shape = {extent(packed_size(matrix.width()))}});
    outputs.push_back({.name = matrix.name(), .shape = {extent(packed_size(matrix.rows()))}});
    layers_.push_back(matrix);
  }
  inputs_layout_ = std::make_shared<const Layout>(std::move(inputs));
  outputs_layout_ = std::make_shared<const Layout>(std::move(outputs));
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    layers_[l].inputs_offset = inputs_layout_->entries()[l].offset;
    layers_[l].outputs_offset = outputs_layout_->entries()[l].offset;
  }
}

void LayerMatrices::measure_inputs(const ClientTask& task, float ridge, std::span<float> inputs) const {
  std::vector<Flat> sums;
  std::vector<std::size_t> rows(layers_.size(), 0);
  for (const auto& layer : layers_) sums.emplace_back(layer.width() * layer.width(), 0.0f);
  task.model.observe([&](const LayerPass& pass) {
    const std::size_t l = places_[pass.index];
    if (l < layers_.size()) rows[l] += add_input_gram(pass, sums[l]);
  });
  task.trainer.show(task.model, task.data);
  task.model.observe({});
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const std::size_t width = layers_[l].width();
    const float scale = 1.0f / static_cast<float>(rows[l]);
    float mean = 0.0f;  // of A's diagonal
    for (std::size_t i = 0; i < width; ++i) mean += scale * sums[l][i * (width + 1)] / static_cast<float>(width);
    pack_symmetric(sums[l], width, scale, ridge * mean, layers_[l].inputs_of(inputs));
  }
}

}  // namespace parley
