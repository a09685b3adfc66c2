// How values become inputs.
#pragma once

#include <string>

#include "parley/data/dataset.h"

namespace parley {

// The transform of data.normalize ("auto", "unit", "standard", "none"), measured on `train`. A
// channel is the first extent of {c, h, w} or one feature of {f}; other shapes have one channel. A
// constant channel is only shifted. Throws InputError when tokens are to be scaled.
Affine normalizer(const Dataset& train, const std::string& kind);

// Gives each target mean 0 and deviation 1 over `train`, in both parts; a constant target is only shifted.
void standardize_targets(Dataset& train, Dataset& test);

}  // namespace parley
