#pragma once

#include "parley/stages/stage.h"

namespace parley {

// Some clients send something else than what they learned: an adversary for experiments, to see what an aggregation
// stands. Who does is drawn at a client's first turn and stays so.
void add_byzantine(StageRegistry& registry);

}  // namespace parley
