// How values become inputs.
#pragma once

#include <string>

#include "parley/data/dataset.h"

namespace parley {

// The transform of data.normalize ("auto", "unit", "standard", "none"), measured on `train`. A
// channel is the first extent of {c, h, w} or one feature of {f}; other shapes have one channel. A
// constant channel is only shifted. Throws InputError when tokens are to be scaled.
Affine normalizer(const Dataset& train, const std::string& kind);

}  // namespace parley
