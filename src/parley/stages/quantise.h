#pragma once

#include "parley/stages/stage.h"

namespace parley {

// Sends each difference as whole multiples of a step, `quantise_bits` a number, rounded up or down at random so that
// the expectation is exact (QSGD, Alistarh et al. 2017, with the channel's largest magnitude as scale).
void add_quantise(StageRegistry& registry);

}  // namespace parley
