#pragma once

#include "parley/stages/stage.h"

namespace parley {

// Sends the largest differences of each tensor and nothing of the others (top-k). With feedback what is not sent is
// carried to the client's next update, so that the sum over its rounds is exact up to the last rest (Stich et al.
// 2018).
void add_sparsify(StageRegistry& registry);

}  // namespace parley
