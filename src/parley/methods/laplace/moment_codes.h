// Second moments in one or two bytes a number. M_ij = d_i·d_j·c_ij with d_i = √M_ii: c is a correlation, between −1 and
// 1 whatever the units, and travels as a whole multiple of 1/127 or 1/32767, the nearest; d travels as floats.
#pragma once

#include <cstddef>
#include <span>

#include "parley/base/bytes.h"

namespace parley {

// In place, a packed lower triangle becomes what the other side will read. `bits` is 8 or 16.
void put_moments(ByteBuffer& to, std::size_t bits, std::size_t width, std::span<float> packed);
// Throws InputError for bytes that put_moments does not make.
void take_moments(ByteReader& from, std::size_t width, std::span<float> packed);

}  // namespace parley
