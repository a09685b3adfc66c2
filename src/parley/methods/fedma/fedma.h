#pragma once

#include "parley/methods/method.h"

namespace parley {

// Averaging of matched units: pfnm (Yurochkin et al. 2019) matches all layers at once, fedma (Wang et al. 2020) one
// layer a round, behind which the clients train the layers above anew. Both keep the model's widths.
void add_fedma(MethodRegistry& registry);

}  // namespace parley
