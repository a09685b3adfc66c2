// A network as a chain of layers whose hidden units have no order of their own: exchanging two units of a layer, with
// everything that belongs to them and with the inputs that the next layer has from them, changes nothing.
//
// Read from a layout. A layer's weight is [out, in, …]; one unit of it is a row. Behind a hidden layer every row of the
// next one is cut into equal blocks, one for each of the hidden units: single numbers between dense layers, kernels
// between convolutions, and a channel's pixels where a convolution meets a dense layer.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "parley/model/model.h"
#include "parley/tensor/layout.h"

namespace parley {

class UnitChain {
 public:
  struct Layer {
    LayoutEntry weight;
    std::vector<LayoutEntry> vectors;  // one number a unit: bias, and the scale, shift and statistics of its norm
    std::size_t units() const { return static_cast<std::size_t>(weight.shape.front()); }
    std::size_t row() const { return weight.size / units(); }
  };

  // Nothing when the layers do not follow each other by their sizes. A layout without matrices has no layers: there is
  // nothing to exchange in it.
  static std::optional<UnitChain> of(const Layout& layout);

  const std::vector<Layer>& layers() const { return layers_; }
  // The last layer's units are the outputs, which have their order.
  std::size_t hidden_layers() const { return layers_.empty() ? 0 : layers_.size() - 1; }

  // Unit u of hidden layer `layer` takes the place of unit place[u].
  void move_units(std::span<float> theta, std::size_t layer, std::span<const std::size_t> place) const;

 private:
  std::vector<Layer> layers_;
};

// Whether the model answers alike when its hidden units are exchanged, tried out on random weights and inputs of
// `features` numbers. Shortcuts past a layer, for example, fix the order. Leaves other weights in the model.
bool units_are_exchangeable(Model& model, const UnitChain& chain, std::size_t features);

}  // namespace parley
