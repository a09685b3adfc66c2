// Compressed precision (Liu & Zheng 2021, §3.5): in every layer the largest values keep their place, the rest become
// their mean.
#pragma once

#include <cstddef>
#include <span>

#include "parley/tensor/layout.h"

namespace parley {

// Keeps the largest `share` of each entry's values and replaces the others by their mean, in place. Returns the bytes
// on the wire: value and index of each that is kept, one mean an entry; at share = 1 nothing changes and values go
// dense.
std::size_t compress_precision(const Layout& layout, double share, std::span<float> precision);

}  // namespace parley
