// A run's statistics against what only the engine knows: those of another run, and what the clients really hold.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "parley/engine/experiment.h"

namespace parley {

// For metrics.jsonl: bn_kl when there is evaluate.reference, class_distribution_error when the method infers class
// distributions.
std::map<std::string, double> compare_statistics(const Experiment& experiment, const State& state);

// KL(N(mean, var) ‖ N(mean, var) of the reference), the mean over all channels of all batch norms (FeDEC, Fig. 6).
// Variances are as the norm uses them, with its ε of 1e-5. Both vectors are of the layout, which has running_pairs().
double running_kl(const Layout& layout, std::span<const float> theta, std::span<const float> reference);

// How far inferred class distributions (a row each, clients × classes) are from counted ones: total variation, the mean
// over the clients that have rows and were inferred, at best 0, at worst 1. The order of inferred classes means
// nothing, so they are first assigned to the true ones in the way that suits all clients together best (Fig. 13).
// Nothing when no client was. REQUIRES as many inferred classes as true ones.
std::optional<double> class_distribution_error(std::span<const float> inferred,
                                               const std::vector<std::vector<std::size_t>>& counts);

}  // namespace parley
