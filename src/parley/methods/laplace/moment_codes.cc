#include "parley/methods/laplace/moment_codes.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "parley/base/errors.h"
#include "parley/gauss/matrix_product.h"

namespace parley {
namespace {

// Calls visit(i, j, number) for what lies below the diagonal, row by row.
void below_diagonal(std::size_t width, std::span<float> packed, auto visit) {
  for (std::size_t i = 0; i < width; ++i) {
    const auto row = packed.subspan(packed_size(i), i);
    for (std::size_t j = 0; j < i; ++j) visit(i, j, row[j]);
  }
}

template <class Code>
constexpr float kLevels = static_cast<float>(std::numeric_limits<Code>::max());

// What both sides make of the codes.
template <class Code>
void decode(std::size_t width, std::span<const float> deviations, std::span<const Code> codes,
            std::span<float> packed) {
  std::size_t at = 0;
  below_diagonal(width, packed, [&](std::size_t i, std::size_t j, float& number) {
    number = deviations[i] * deviations[j] * (static_cast<float>(codes[at++]) / kLevels<Code>);
  });
  for (std::size_t i = 0; i < width; ++i) packed[packed_size(i + 1) - 1] = deviations[i] * deviations[i];
}

template <class Code>
void put_codes(ByteBuffer& to, std::size_t width, std::span<float> packed) {
  std::vector<float> deviations;
  for (std::size_t i = 0; i < width; ++i) {
    deviations.push_back(std::sqrt(std::max(0.0f, packed[packed_size(i + 1) - 1])));
  }
  std::vector<Code> codes;
  below_diagonal(width, packed, [&](std::size_t i, std::size_t j, float number) {
    const float scale = deviations[i] * deviations[j];
    const float correlation = scale > 0.0f ? std::clamp(number / scale, -1.0f, 1.0f) : 0.0f;
    codes.push_back(static_cast<Code>(std::lround(correlation * kLevels<Code>)));
  });
  put_all(to, deviations);
  put_all(to, codes);
  decode<Code>(width, deviations, codes, packed);
}

template <class Code>
void take_codes(ByteReader& from, std::size_t width, std::span<float> packed) {
  std::vector<float> deviations(width);
  std::vector<Code> codes(packed_size(width) - width);
  from.take_all(std::span(deviations));
  from.take_all(std::span(codes));
  decode<Code>(width, deviations, codes, packed);
}

}  // namespace

void put_moments(ByteBuffer& to, std::size_t bits, std::size_t width, std::span<float> packed) {
  put(to, static_cast<std::uint8_t>(bits));
  bits == 8 ? put_codes<std::int8_t>(to, width, packed) : put_codes<std::int16_t>(to, width, packed);
}

void take_moments(ByteReader& from, std::size_t width, std::span<float> packed) {
  const auto bits = from.take<std::uint8_t>();
  if (bits != 8 && bits != 16) fail("second moments of {} bits: expected 8 or 16", bits);
  bits == 8 ? take_codes<std::int8_t>(from, width, packed) : take_codes<std::int16_t>(from, width, packed);
}

}  // namespace parley
