// The average of networks whose hidden units stand in different orders.
#pragma once

#include <span>
#include <vector>

#include "parley/methods/fedma/unit_chain.h"
#include "parley/tensor/flat.h"

namespace parley {

struct WeightedNetwork {
  Flat theta;
  double weight;
};

// Puts the units of hidden layer `layer` of `theta` into the order of `reference`: the assignment with the least
// squared distance between what comes into a unit (weights, bias, scale and shift) and, in the last hidden layer,
// between what goes out too. The layers before must be in order already.
void match_units(const UnitChain& chain, std::size_t layer, std::span<const float> reference, std::span<float> theta);

// Puts the units of the hidden layers from `first` on into a common order, layer by layer, and averages. Within a layer
// the networks are matched one after the other with the mean of those before (the first with `reference`), then all
// with the mean of all, until nobody moves. `networks` are left in that order.
FlatDouble matched_average(const UnitChain& chain, std::size_t first, std::span<const float> reference,
                           std::span<WeightedNetwork> networks);

}  // namespace parley
