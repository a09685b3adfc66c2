// Packing for a changed copy of a broadcast channel of which most numbers are still the broadcast's.
#pragma once

#include <span>

#include "parley/update/packing.h"

namespace parley {

// Only the numbers that are not those of `base`, bit for bit, and their places. It unpacks as Packing::sparse, where
// the channel is relative to what `base` is. REQUIRES values and base of one size.
Packed pack_changes(std::span<const float> values, std::span<const float> base);

}  // namespace parley
