#pragma once

#include "parley/methods/method.h"

namespace parley {

// Fair resource allocation (Li et al. 2020): minimises Σ F_k^{q+1}/(q + 1), so that a client with a large loss counts
// for more. qfedavg's clients train, qfedsgd's send one exact gradient.
void add_qfed(MethodRegistry& registry);

}  // namespace parley
