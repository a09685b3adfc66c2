#pragma once

#include "parley/methods/method.h"

namespace parley {

// Evolution strategies with shared seeds (Salimans et al. 2017): a node answers with scalars, and the server rebuilds
// the step from the same noise. Only theta is broadcast, so large networks are no more bytes than with fedavg.
void add_openes(MethodRegistry& registry);

}  // namespace parley
