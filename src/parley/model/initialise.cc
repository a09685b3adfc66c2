#include <cmath>

#include "parley/model/model.h"

namespace parley {
namespace {

std::size_t fan_in(const LayoutEntry& weight) {
  return weight.shape.empty() ? 1 : weight.size / static_cast<std::size_t>(weight.shape[0]);
}

// The layer an entry belongs to: "fc1" of "fc1.bias".
std::string_view layer_of(const LayoutEntry& entry) {
  return std::string_view(entry.name).substr(0, entry.name.rfind('.'));
}

// A bias shares the bound of its layer's weight (PyTorch); one without such a weight starts at
// zero.
double bound(const Layout& layout, const LayoutEntry& entry) {
  if (entry.role == Role::weight) return 1.0 / std::sqrt(static_cast<double>(fan_in(entry)));
  for (const auto& other : layout.entries()) {
    if (other.role == Role::weight && layer_of(other) == layer_of(entry)) {
      return 1.0 / std::sqrt(static_cast<double>(fan_in(other)));
    }
  }
  return 0.0;
}

}  // namespace

void initialise(const Layout& layout, std::span<float> parameters, Stream& stream) {
  for (const auto& entry : layout.entries()) {
    const auto values = entry.of(parameters);
    if (entry.role == Role::weight || entry.role == Role::bias) {
      const double limit = bound(layout, entry);
      for (float& value : values) value = static_cast<float>(stream.uniform(-limit, limit));
    } else {
      const bool one = entry.role == Role::norm_scale || entry.role == Role::running_var;
      std::fill(values.begin(), values.end(), one ? 1.0f : 0.0f);
    }
  }
}

}  // namespace parley
