#include "parley/methods/fedec/reports.h"

#include <algorithm>
#include <optional>

#include "parley/gauss/eigen_maps.h"

namespace parley {
namespace {

// The shown layer before a norm: the last one whose weights come before the norm's own, if it has an output a channel.
std::optional<std::size_t> layer_before(const Layout& layout, std::span<const Layer> layers, const RunningPair& norm) {
  const std::string name = norm.mean.name.substr(0, norm.mean.name.rfind('.')) + ".weight";
  const LayoutEntry* scale = layout.find(name);
  if (scale == nullptr) return std::nullopt;
  std::optional<std::size_t> last;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const std::size_t offset = layers[l].weight.offset;
    if (offset < scale->offset && (!last || offset > layers[*last].weight.offset)) last = l;
  }
  return last && layers[*last].out() == norm.mean.size ? last : std::nullopt;
}

}  // namespace

NormReports::NormReports(const Layout& layout) {
  const auto layers = shown_layers(layout);
  for (const auto& norm : running_pairs(layout)) {
    const auto layer = layer_before(layout, layers, norm);
    const bool taken = layer && std::ranges::find(places_, *layer, &Place::layer) != places_.end();
    if (!layer || taken) continue;
    places_.push_back({*layer, channels_});
    channels_ += norm.mean.size;
  }
}

void NormReports::measure(const ClientTask& task, std::span<float> moments) const {
  std::vector<double> sums(size(), 0.0);
  std::vector<std::size_t> rows(places_.size(), 0);
  const auto parameters = std::span<const float>(task.model.parameters());
  Matrix<float> outputs;
  task.model.observe([&](const LayerPass& pass) {
    const auto place = std::ranges::find(places_, pass.index, &Place::layer);
    if (place == places_.end()) return;
    const std::size_t out = pass.layer.out();
    const ConstMap<float> inputs(pass.inputs.data(), index(pass.rows), index(pass.layer.in()));
    const ConstMap<float> weight(pass.layer.weight.of(parameters).data(), index(out), index(pass.layer.in()));
    outputs.noalias() = weight * inputs.transpose();  // a row for each channel, so that sums run along memory
    for (std::size_t j = 0; j < out; ++j) {
      const float bias = pass.layer.bias ? pass.layer.bias->of(parameters)[j] : 0.0f;
      const auto channel = outputs.row(index(j)).cast<double>().array() + double{bias};
      sums[place->offset + j] += channel.sum();
      sums[channels_ + place->offset + j] += channel.square().sum();
    }
    rows[static_cast<std::size_t>(place - places_.begin())] += pass.rows;
  });
  task.trainer.show(task.model, task.data);
  task.model.observe({});
  for (std::size_t p = 0; p < places_.size(); ++p) {
    const std::size_t end = p + 1 < places_.size() ? places_[p + 1].offset : channels_;
    for (std::size_t i = places_[p].offset; i < end; ++i) {
      for (const std::size_t at : {i, channels_ + i}) {
        moments[at] = static_cast<float>(sums[at] / static_cast<double>(rows[p]));
      }
    }
  }
}

}  // namespace parley
