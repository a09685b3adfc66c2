// The federated fitness: what gradient-free methods ask of a node, and all that leaves it beside n_k.
//
// A candidate's fitness is minus the squared error of its outputs, summed over the outputs and averaged over examples
// (Kiss 2021, Eq. 5.4); a classifier's are its probabilities, against one-hot labels. Summed by weight n_k, the mean
// over nodes is the fitness on their pooled data.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "parley/methods/method.h"

namespace parley {

// One channel, a number for each candidate. Measured, not learned: stages leave it alone.
Schema fitness_schema(std::size_t candidates);

// Throws InputError when the model answers every example alike, whatever its weights.
void require_comparable(const Task& task);

// Writes the trainable weights of a candidate. Called for 0, 1, 2, … in turn, once for each block of examples.
using WriteCandidate = std::function<void(std::size_t candidate, std::span<float> weights)>;

// Fills the update with the fitness of every candidate on `data`. Examples are gathered once for all candidates, so the
// time is that of the forward passes. What is not trained is broadcast theta's: a batch norm works with the running
// statistics it started with (one over each batch with those of the examples, up to kEvaluationChunk at a time). A
// candidate whose error is not finite gets the lowest fitness there is. Throws RefusedUpdate when that is so for all of
// them.
//
// In update.training an example is one forward pass, and a step one candidate.
void measure_fitness(const ClientTask& task, const View& data, const WriteCandidate& write, Update& update);

// The mean over the nodes. Once a round.
FlatDouble take_fitness(ServerTask& task);
// Positions from the fittest to the least fit; of equals the first comes first.
std::vector<std::size_t> ranked(std::span<const double> fitness);

// Lets the server step take theta's trainable weights towards these.
void move_theta_to(const ServerTask& task, std::span<const float> weights);

}  // namespace parley
