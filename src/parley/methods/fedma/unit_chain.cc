#include "parley/methods/fedma/unit_chain.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <set>

namespace parley {
namespace {

// "bn1.running_mean" -> "bn1"
std::string_view owner(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

bool has_vector_of(const UnitChain::Layer& layer, std::string_view module) {
  return std::ranges::any_of(layer.vectors, [&](const LayoutEntry& e) { return owner(e.name) == module; });
}

// The layer that a vector belongs to: what is trained stands behind its layer's weight; running statistics stand at the
// end of the layout and belong where their norm's scale does.
UnitChain::Layer* layer_of(std::vector<UnitChain::Layer>& layers, const LayoutEntry& vector) {
  if (layers.empty()) return nullptr;
  if (is_trainable(vector.role)) return &layers.back();
  const auto found =
      std::ranges::find_if(layers, [&](const auto& layer) { return has_vector_of(layer, owner(vector.name)); });
  return found == layers.end() ? nullptr : &*found;
}

// Moves block b of `values`, `size` numbers long, to place[b].
void move_blocks(std::span<float> values, std::size_t size, std::span<const std::size_t> place) {
  assert(values.size() == size * place.size());
  const std::vector<float> before(values.begin(), values.end());
  for (std::size_t b = 0; b < place.size(); ++b) {
    std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(b * size), size,
                values.begin() + static_cast<std::ptrdiff_t>(place[b] * size));
  }
}

}  // namespace

std::optional<UnitChain> UnitChain::of(const Layout& layout) {
  UnitChain chain;
  std::set<std::string_view> before_all;  // modules before the first layer: norms of the inputs
  for (const LayoutEntry& entry : layout.entries()) {
    if (entry.shape.size() >= 2) {
      chain.layers_.push_back({.weight = entry, .vectors = {}});
      continue;
    }
    if (chain.layers_.empty()) before_all.insert(owner(entry.name));
    if (entry.role == Role::counter || before_all.contains(owner(entry.name))) continue;
    Layer* layer = layer_of(chain.layers_, entry);
    if (layer == nullptr || entry.size != layer->units()) return {};
    layer->vectors.push_back(entry);
  }
  for (std::size_t l = 1; l < chain.layers_.size(); ++l) {
    if (chain.layers_[l].row() % chain.layers_[l - 1].units() != 0) return {};
  }
  return chain;
}

void UnitChain::move_units(std::span<float> theta, std::size_t layer, std::span<const std::size_t> place) const {
  assert(layer < hidden_layers() && place.size() == layers_[layer].units());
  const Layer &here = layers_[layer], &next = layers_[layer + 1];
  move_blocks(here.weight.of(theta), here.row(), place);
  for (const LayoutEntry& vector : here.vectors) move_blocks(vector.of(theta), 1, place);
  const auto inputs = next.weight.of(theta);
  for (std::size_t unit = 0; unit < next.units(); ++unit) {
    move_blocks(inputs.subspan(unit * next.row(), next.row()), next.row() / here.units(), place);
  }
}

bool units_are_exchangeable(Model& model, const UnitChain& chain, std::size_t features) {
  constexpr std::size_t kExamples = 4;
  Stream stream(0, "exchangeable units");
  const auto theta = model.parameters();
  initialise(model.layout(), theta, stream);
  for (const auto& layer : chain.layers()) {
    for (const auto& vector : layer.vectors) {
      for (float& x : vector.of(theta)) x = static_cast<float>(stream.uniform(0.5, 1.5));  // a variance is positive
    }
  }
  std::vector<float> inputs(kExamples * features);
  for (float& x : inputs) x = static_cast<float>(stream.uniform());
  const auto answers = [&] {
    std::vector<float> outputs(kExamples * model.outputs());
    model.predict({.size = kExamples, .inputs = inputs}, outputs);
    return outputs;
  };
  const std::vector<float> before = answers();
  for (std::size_t layer = 0; layer < chain.hidden_layers(); ++layer) {
    std::vector<std::size_t> place(chain.layers()[layer].units());
    std::iota(place.begin(), place.end(), std::size_t{0});
    stream.shuffle(std::span(place));
    chain.move_units(theta, layer, place);
  }
  const std::vector<float> after = answers();
  double difference = 0.0, size = 0.0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    difference += std::abs(static_cast<double>(after[i]) - before[i]);
    size += std::abs(before[i]);
  }
  return difference <= 1e-3 * size;
}

}  // namespace parley
