// Candidate models one behind the other in a flat vector: what gradient-free methods breed, move and compare. A
// candidate is the trainable weights of a model.
#pragma once

#include <memory>
#include <span>

#include "parley/tensor/flat.h"
#include "parley/tensor/layout.h"

namespace parley {

// Of a state's channel that holds so many candidates.
std::shared_ptr<const Layout> population_layout(std::size_t candidates, std::size_t weights);

template <class T>
std::span<T> candidate(std::span<T> population, std::size_t index, std::size_t weights) {
  return population.subspan(index * weights, weights);
}

// Theta, then models with fresh weights. None of those is exactly zero, because a mutation that multiplies could never
// change it: scales and shifts of norms are moved a little.
Flat first_generation(const Layout& layout, std::span<const float> theta, std::size_t candidates, std::uint64_t seed);

}  // namespace parley
