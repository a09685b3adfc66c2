// Compressed precision (Liu & Zheng 2021, §3.5): in every layer the largest values keep their place, the rest become
// their mean.
#pragma once

#include <span>
#include <vector>

#include "parley/tensor/layout.h"
#include "parley/update/packing.h"

namespace parley {

// Keeps the largest `share` of each entry's values and replaces the others by their mean, in place. Returns the entries
// with their means, as pack_sparse() takes them; at share = 1 nothing changes, and there are none.
std::vector<SparseSegment> compress_precision(const Layout& layout, double share, std::span<float> precision);

}  // namespace parley
