// The shapes of the room's loops, so that each formula is written once and the compiler can vectorise it.
#pragma once

#include <array>
#include <cstddef>

namespace parley::gauss {

// f(0), …, f(size−1), in no particular order. An output may be the very array of an input: the pragma tells the
// compiler so; otherwise its overlap check would send every in-place call down the scalar path.
template <class Visit>
void for_each(std::size_t size, Visit visit) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < size; ++i) visit(i);
}

// Σ term(i) in double, over a fixed number of lanes: it vectorises without licence to reorder, and the result is the
// same for every width of the vector unit.
template <class Term>
double sum(std::size_t size, Term term) {
  constexpr std::size_t kLanes = 32;
  alignas(64) std::array<double, kLanes> lanes{};
  const std::size_t whole = size - size % kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  }
  for (std::size_t i = whole; i < size; ++i) lanes[i - whole] += term(i);
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

}  // namespace parley::gauss
