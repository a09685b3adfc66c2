// What peers that stay at home make of each other's weights: the arithmetic of dpsgd and gossip, the same in simulated
// time and between machines.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "parley/tensor/flat.h"

namespace parley {

// What a node puts into a round of D-PSGD: the weights that its neighbours mix, and what it adds to the mixture itself.
struct Offer {
  Flat weights;
  Flat step;  // empty: nothing
};
// `after` is what training made of `before`; empty when it failed. With `mixes_old_weights` neighbours get those from
// before (Kiss 2021, Eq. 3.15).
Offer offer_of(std::span<const float> before, std::span<const float> after, bool mixes_old_weights);

// A neighbour's offered weights, and how much of the way towards them is gone.
struct Partner {
  std::span<const float> weights;
  double share;
};
// Metropolis: doubly stochastic, whatever the graph, as long as two always mix with each other or not at all.
double metropolis_share(std::size_t degree, std::size_t other_degree);
// The partners' sum is taken in the order given, which decides the last bit.
Flat mix(const Offer& own, std::span<const Partner> partners);

// A model and the trainings behind it.
struct Aged {
  std::span<const float> weights;
  std::size_t age;
};
// Own weights and age towards the other's, each by its share of the two ages.
void merge_by_age(std::span<float> own, std::size_t& age, const Aged& other);

// Of at least one.
Flat mean_of(const std::vector<std::span<const float>>& models);

}  // namespace parley
