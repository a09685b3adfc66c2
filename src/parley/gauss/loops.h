// The shapes of the room's loops, so that each formula is written once and the compiler can vectorise it.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

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

// ln x for a positive, normal double, within one unit in the last place and exact at 1. std::log is a call, and a call
// in a loop is not vectorised. The method and the coefficients are those of Sun's fdlibm (e_log.c): x = 2^k(1 + f)
// with 1 + f in [√½, √2), s = f/(2 + f), ln(1 + f) = f − f²/2 + s(f²/2 + R(s²)).
inline double log_normal_number(double x) {
  constexpr std::uint64_t kRootHalf = 0x3fe6a09e667f3bcdULL;  // √½
  const std::uint64_t shifted = std::bit_cast<std::uint64_t>(x) - kRootHalf;
  // k + 1024 under the mantissa of 2^52, instead of an integer conversion that older vector units lack.
  const std::uint64_t biased = ((shifted + (1024ULL << 52)) >> 52) | 0x4330000000000000ULL;
  const double k = std::bit_cast<double>(biased) - (0x1p52 + 1024.0);
  const double f = std::bit_cast<double>((shifted & 0x000fffffffffffffULL) + kRootHalf) - 1.0;
  const double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
  double r = 1.479819860511658591e-01;
  r = 1.531383769920937332e-01 + z * r;
  r = 1.818357216161805012e-01 + z * r;
  r = 2.222219843214978396e-01 + z * r;
  r = 2.857142874366239149e-01 + z * r;
  r = 3.999999999940941908e-01 + z * r;
  r = z * (6.666666666666735130e-01 + z * r);
  return k * 6.93147180369123816490e-01 - ((half - (s * (half + r) + k * 1.90821492927058770002e-10)) - f);
}

}  // namespace parley::gauss
