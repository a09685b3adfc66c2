#include "parley/methods/layered.h"

#include "parley/model/curvature.h"

namespace parley {
namespace {

std::int64_t extent(std::size_t n) {
  return static_cast<std::int64_t>(n);
}

}  // namespace

LayerMatrices::LayerMatrices(std::span<const Layer> shown, std::size_t widest, const RankOfWidth& rank) {
  std::vector<LayoutEntry> inputs, outputs;
  for (const auto& layer : shown) {
    LayerMatrix matrix{layer};
    if (rank) matrix.rank = rank(matrix.width());
    const bool fits = matrix.width() <= widest && matrix.rows() <= widest;
    places_.push_back(fits ? layers_.size() : shown.size());
    if (!fits) continue;
    inputs.push_back({.name = matrix.name(), .shape = {extent(matrix.inputs_size())}});
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
  InputSums sums(*this);
  measure_inputs(task, sums);
  sums.write(ridge, inputs);
}

void LayerMatrices::measure_inputs(const ClientTask& task, InputSums& sums) const {
  task.model.observe([&](const LayerPass& pass) { sums.add(pass); });
  task.trainer.show(task.model, task.data);
  task.model.observe({});
}

InputSums::InputSums(const LayerMatrices& matrices, std::size_t first)
    : matrices_(matrices), first_(first), sums_(matrices.all().size()) {
  for (std::size_t l = first; l < sums_.size(); ++l) {
    const LayerMatrix& layer = matrices.all()[l];
    Sum& sum = sums_[l];
    if (layer.rank > 0) {
      const auto random = sketch_directions(layer.width(), layer.rank);
      sum.directions.assign(random.begin(), random.end());
      sum.count = layer.rank;
    }
    sum.values.assign(layer.width() * (layer.rank > 0 ? layer.rank : layer.width()), 0.0f);
  }
}

void InputSums::ask_product(const LayerMatrix& layer, std::span<const float> v) {
  Sum& sum = sums_[matrices_.place_of(layer)];
  const std::size_t width = layer.width(), rows = layer.rows();
  Flat both(width * (layer.rank + rows));
  for (std::size_t j = 0; j < width; ++j) {
    float* to = std::copy_n(sum.directions.data() + j * layer.rank, layer.rank, both.data() + j * (layer.rank + rows));
    for (std::size_t i = 0; i < rows; ++i) *to++ = v[i * width + j];
  }
  sum.directions = std::move(both);
  sum.count = layer.rank + rows;
  sum.values.assign(width * sum.count, 0.0f);
}

void InputSums::add(const LayerPass& pass) {
  const LayerMatrix* layer = matrices_.shown_as(pass.index);
  if (layer == nullptr || matrices_.place_of(*layer) < first_) return;
  Sum& sum = sums_[matrices_.place_of(*layer)];
  sum.rows += layer->rank > 0 ? add_input_products(pass, sum.directions, sum.count, sum.values, sum.trace)
                              : add_input_gram(pass, sum.values);
}

void InputSums::write(float ridge, std::span<float> inputs) const {
  for (std::size_t l = first_; l < sums_.size(); ++l) {
    const LayerMatrix& layer = matrices_.all()[l];
    const Sum& sum = sums_[l];
    const std::size_t width = layer.width();
    const float scale = 1.0f / static_cast<float>(sum.rows);
    if (layer.rank > 0) {
      const auto sketch = layer.inputs_of(inputs);
      for (std::size_t j = 0; j < width; ++j) {
        const float* products = sum.values.data() + j * sum.count;
        std::transform(products, products + layer.rank, sketch.begin() + static_cast<std::ptrdiff_t>(j * layer.rank),
                       [&](float x) { return scale * x; });
      }
      sketch.back() = scale * static_cast<float>(sum.trace);
      continue;
    }
    float mean = 0.0f;  // of A's diagonal
    for (std::size_t i = 0; i < width; ++i) mean += scale * sum.values[i * (width + 1)] / static_cast<float>(width);
    pack_symmetric(sum.values, width, scale, ridge * mean, layer.inputs_of(inputs));
  }
}

void InputSums::take_product(const LayerMatrix& layer, std::span<float> v) const {
  const Sum& sum = sums_[matrices_.place_of(layer)];
  const float scale = 1.0f / static_cast<float>(sum.rows);
  for (std::size_t i = 0; i < layer.rows(); ++i) {
    for (std::size_t j = 0; j < layer.width(); ++j) {
      v[i * layer.width() + j] = scale * sum.values[j * sum.count + layer.rank + i];
    }
  }
}

}  // namespace parley
