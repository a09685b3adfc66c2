// What a client measures at one point, the weights that its model holds: sums over its own examples, as means.
#pragma once

#include <span>
#include <vector>

#include "parley/methods/laplace/options.h"
#include "parley/methods/layered.h"

namespace parley {

// The trained weights that are in none of the matrices, one after the other.
struct RestOfModel {
  std::vector<LayoutEntry> entries;
  std::size_t size = 0;

  RestOfModel(const Layout& layout, const LayerMatrices& matrices);
  // Calls visit(place in the model, place here) for each of its numbers.
  template <class Visit>
  void for_each(Visit visit) const {
    std::size_t at = 0;
    for (const auto& entry : entries) {
      for (std::size_t i = 0; i < entry.size; ++i) visit(entry.offset + i, at++);
    }
  }
};

// Where the factors go: packed A and B of every layer, and a diagonal of the rest.
struct PointFactors {
  std::span<float> inputs, outputs, rest;
  std::size_t first = 0;  // layer whose A is wanted; those before it are left zero
};

// One pass over the client's data in large batches. Fills `gradient` (of the layout's size) with the mean gradient and,
// behind what is trained, the running statistics that the pass left. Without `factors` it takes half the time. Returns
// the mean loss. Throws RefusedUpdate when it is not finite.
double measure_point(const ClientTask& task, const LayerMatrices& matrices, const RestOfModel& rest,
                     const LaplaceOptions& options, std::span<float> gradient, const PointFactors* factors);

// The mean loss alone, as measure_point finds it. Throws RefusedUpdate when it is not finite.
double point_loss(const ClientTask& task);

}  // namespace parley
