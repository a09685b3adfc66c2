// Some floats at a time, as wide as the registers that this file is compiled for: GCC's vectors, for the loops that
// GCC would not vectorise so by itself.
#pragma once

#include <cstddef>

namespace parley {

#if defined(__AVX512F__)
inline constexpr std::size_t kLanes = 16;
#elif defined(__AVX__)
inline constexpr std::size_t kLanes = 8;
#else
inline constexpr std::size_t kLanes = 4;
#endif

// Never passed by value: how that is done depends on the instruction set.
typedef float Lanes __attribute__((vector_size(4 * kLanes)));
typedef float LanesAnywhere __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));

inline void load(const float* from, Lanes& to) {
  to = *reinterpret_cast<const LanesAnywhere*>(from);
}
inline void store(const Lanes& value, float* to) {
  *reinterpret_cast<LanesAnywhere*>(to) = value;
}

}  // namespace parley
