// How the clients' running means and variances (batch norm) become the server's.
//
// Client k holds n_k examples and has the share a_k = w_k/Σw in the round. The mean is Σ a_k·mean_k. The variance is
//
//   mean      Σ a_k·var_k                                what averaging does: too small, by the spread of the means
//   pooled    Σ a_k(n_k − 1)·var_k / Σ a_k(n_k − 1)      (FeDEC, Eq. 5, with weights that sum to 1)
//   mixture   Σ a_k(var_k + (mean_k − mean)²)            that of the clients' data taken together
//   literal   Σ a_k(n_k − 1)·var_k / (n − K)             (FeDEC, Eq. 5, as printed: K times too small for equal
//   clients)
//
// A wrapper around any method that leaves a client's trained weights in the model. What it sends are sums over
// examples, in channels of their own ("running_mean", "running_var", …) of one float for each norm channel, so nothing
// is kept for each client, and a stage that clips or rounds what was learned leaves them alone.
#pragma once

#include <memory>

#include "parley/methods/method.h"

namespace parley {

enum class VarianceRule { mean, pooled, mixture, literal };

// REQUIRES a layout with running_pairs().
std::unique_ptr<Method> aggregate_running_statistics(std::unique_ptr<Method> method, const Layout& layout,
                                                     VarianceRule rule);

}  // namespace parley
