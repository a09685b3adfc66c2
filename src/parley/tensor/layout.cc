#include "parley/tensor/layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <ranges>
#include <stdexcept>

namespace parley {

bool is_trainable(Role role) {
  return role == Role::weight || role == Role::bias || role == Role::norm_scale || role == Role::norm_shift;
}

Layout::Layout(std::vector<LayoutEntry> entries) : entries_(std::move(entries)) {
  std::stable_partition(entries_.begin(), entries_.end(), [](const LayoutEntry& e) { return is_trainable(e.role); });
  for (auto& entry : entries_) {
    assert(find(entry.name) == &entry && "two parameters of one name");
    entry.offset = size_;
    entry.size = 1;
    bool overflow = false;
    for (const auto extent : entry.shape) {
      overflow |= __builtin_mul_overflow(entry.size, static_cast<std::size_t>(extent), &entry.size);
    }
    overflow |= __builtin_add_overflow(size_, entry.size, &size_);
    if (overflow) throw std::length_error("more parameters than can be counted");
    if (is_trainable(entry.role)) trainable_ = size_;
  }
}

const LayoutEntry* Layout::find(std::string_view name) const {
  for (const auto& entry : entries_) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

Layout with_layers(const Layout& layout, std::span<const Layer> layers) {
  std::vector<LayoutEntry> entries = layout.entries();
  for (std::size_t l = 0; l < layers.size(); ++l) {
    for (auto& entry : entries) {
      const bool is_bias = layers[l].bias && layers[l].bias->offset == entry.offset;
      if (layers[l].weight.offset == entry.offset || is_bias) entry.layer = l;
    }
  }
  return Layout(std::move(entries));
}

std::vector<Layer> shown_layers(const Layout& layout) {
  std::map<std::size_t, Layer> layers;
  for (const auto& entry : layout.entries()) {
    if (!entry.layer) continue;
    Layer& layer = layers[*entry.layer];
    entry.role == Role::bias ? void(layer.bias = entry) : void(layer.weight = entry);
  }
  const auto found = std::views::values(layers);
  return {found.begin(), found.end()};
}

std::vector<RunningPair> running_pairs(const Layout& layout) {
  const auto layer_of = [](const LayoutEntry& entry) { return entry.name.substr(0, entry.name.rfind('.')); };
  std::vector<RunningPair> pairs;
  for (const auto& var : layout.entries()) {
    if (var.role != Role::running_var) continue;
    for (const auto& mean : layout.entries()) {
      const bool partners = mean.role == Role::running_mean && mean.size == var.size && layer_of(mean) == layer_of(var);
      if (partners) pairs.push_back({mean, var});
    }
  }
  return pairs;
}

std::string describe_shape(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string Layout::describe() const {
  std::vector<std::string> parts;
  for (const auto& entry : entries_) parts.push_back(fmt::format("{} {}", entry.name, describe_shape(entry.shape)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

bool Layout::operator==(const Layout& other) const {
  return std::equal(entries_.begin(), entries_.end(), other.entries_.begin(), other.entries_.end(),
                    [](const LayoutEntry& a, const LayoutEntry& b) {
                      return a.name == b.name && a.shape == b.shape && a.role == b.role;
                    });
}

}  // namespace parley
