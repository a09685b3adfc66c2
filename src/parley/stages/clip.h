#pragma once

#include "parley/stages/stage.h"

namespace parley {

// Scales an update's difference from the broadcast down to an L2 norm of at most stages.clip_norm, all channels
// together, so that no client can move the model further than that.
void add_clip(StageRegistry& registry);

}  // namespace parley
