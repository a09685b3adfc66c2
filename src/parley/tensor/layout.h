// The names, shapes and roles of a model's parameters, in the order in which they lie in one flat vector.
//
// Everything that training moves comes first (`trainable()` floats); what is only measured (running statistics,
// counters) follows, so an optimiser works on a prefix and never touches the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace parley {

// frozen: a parameter that is not to be trained (PyTorch's requires_grad = False); nothing moves it.
enum class Role { weight, bias, norm_scale, norm_shift, running_mean, running_var, counter, frozen };

bool is_trainable(Role role);

struct LayoutEntry {
  std::string name;  // unique, e.g. "fc1.weight"
  std::vector<std::int64_t> shape;
  Role role = Role::weight;
  std::size_t offset = 0;  // of its first float; set by Layout
  std::size_t size = 0;    // number of floats; set by Layout
  // Other names of the same numbers (tied weights), under which files hold them too.
  std::vector<std::string> aliases = {};
  // Which of the layers that the model shows it is the weight or bias of; none: it is in no such layer.
  std::optional<std::size_t> layer = std::nullopt;

  template <class T>
  std::span<T> of(std::span<T> flat) const {
    return flat.subspan(offset, size);
  }
};

class Layout {
 public:
  Layout() = default;
  // Entries keep their order, except that the trainable ones are moved to the front.
  explicit Layout(std::vector<LayoutEntry> entries);

  std::size_t size() const { return size_; }
  std::size_t trainable() const { return trainable_; }
  const std::vector<LayoutEntry>& entries() const { return entries_; }
  const LayoutEntry* find(std::string_view name) const;

  // "fc1.weight [500, 784], fc1.bias [500], …": for messages and `parley describe`.
  std::string describe() const;
  bool operator==(const Layout& other) const;

 private:
  std::vector<LayoutEntry> entries_;
  std::size_t size_ = 0;
  std::size_t trainable_ = 0;
};

// A layer that multiplies: outputs = inputs·weightᵀ + bias.
struct Layer {
  LayoutEntry weight;  // [out, in] once flattened
  std::optional<LayoutEntry> bias;

  std::size_t out() const { return static_cast<std::size_t>(weight.shape.front()); }
  std::size_t in() const { return weight.size / out(); }
};
// The same layout, in which the entries of these layers, which a model shows, are marked; and the layers back from it.
Layout with_layers(const Layout& layout, std::span<const Layer> layers);
std::vector<Layer> shown_layers(const Layout& layout);

// What a batch norm has measured of its inputs: two entries of equal size, one number for each channel.
struct RunningPair {
  LayoutEntry mean, var;
};
// Every running variance with the running mean of the same layer ("conv1.norm.running_mean"), in the layout's order.
std::vector<RunningPair> running_pairs(const Layout& layout);

std::string describe_shape(std::span<const std::int64_t> shape);

}  // namespace parley
