// exp and ln of a float in a few arithmetic operations. The standard library's are calls, and a call in a loop is not
// vectorised; Bayesian layers take one of a weight at every step.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace parley::gauss {

// ln x for a positive, normal float, within two units in the last place; coefficients of Moshier's Cephes (logf.c).
inline float log_float(float x) {
  constexpr std::uint32_t kRootHalf = 0x3f3504f3u;  // √½
  const std::uint32_t shifted = std::bit_cast<std::uint32_t>(x) - kRootHalf;
  const auto k = static_cast<float>(static_cast<std::int32_t>(shifted) >> 23);
  const float f = std::bit_cast<float>((shifted & 0x007fffffu) + kRootHalf) - 1.0f;
  const float z = f * f;
  float r = 7.0376836292e-2f;
  r = -1.1514610310e-1f + f * r;
  r = 1.1676998740e-1f + f * r;
  r = -1.2420140846e-1f + f * r;
  r = 1.4249322787e-1f + f * r;
  r = -1.6668057665e-1f + f * r;
  r = 2.0000714765e-1f + f * r;
  r = -2.4999993993e-1f + f * r;
  r = 3.3333331174e-1f + f * r;
  const float tail = f * z * r + k * -2.12194440e-4f - 0.5f * z;
  return (f + tail) + k * 0.693359375f;
}

// eˣ within two units in the last place; coefficients of Moshier's Cephes (expf.c). Outside of ±87, where a float's
// normal numbers end, it is e^±87: never 0 and never infinite.
inline float exp_float(float x) {
  constexpr float kRound = 0x1.8p23f;  // adding and taking it away rounds to a whole number, which the mantissa shows
  const float bounded = std::min(std::max(x, -87.0f), 87.0f);
  const float shifted = bounded * 1.44269504088896341f + kRound;
  const float k = shifted - kRound;
  const float f = (bounded - k * 0.693359375f) - k * -2.12194440e-4f;
  float r = 1.9875691500e-4f;
  r = 1.3981999507e-3f + f * r;
  r = 8.3334519073e-3f + f * r;
  r = 4.1665795894e-2f + f * r;
  r = 1.6666665459e-1f + f * r;
  r = 5.0000001201e-1f + f * r;
  const std::uint32_t power = (std::bit_cast<std::uint32_t>(shifted) + 127u) << 23;
  return (f * f * r + f + 1.0f) * std::bit_cast<float>(power);
}

}  // namespace parley::gauss
