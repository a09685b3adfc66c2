#pragma once

#include "parley/methods/method.h"

namespace parley {

// FeDEC: decoupled, probabilistically weighted aggregation (ICLR 2021 submission, seed 001).
//
//   θ ← θ + β·Σ π_k(θ_k − θ)   (Eq. 3; β = server.lr)      means ← Σ π_k·mean_k   (Eq. 4)
//   variances by bn_variance (Eq. 5; methods/running_statistics.h), `mean` is FeDEC(w/o): π on everything alike
//
// π comes from what the server infers of each client's data from its batch-norm statistics (fedec/inference.h), by
// `weights` (fedec/weights.h). It is known only when all clients have answered, so except with `size` the server keeps
// every client's weights for the round: K models. Encoder and decoder live in the state ("fedec"), and so does the
// class distribution last inferred of each client ("class_distribution", clients × classes); neither is broadcast.
void add_fedec(MethodRegistry& registry);

}  // namespace parley
