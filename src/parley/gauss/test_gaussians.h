// Gaussians that own their memory, for the tests.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "parley/base/random.h"
#include "parley/gauss/diagonal.h"
#include "parley/tensor/flat.h"

namespace parley::gauss::testing {

struct Natural {
  Flat precision, shift;
  explicit Natural(std::size_t size) : precision(size), shift(size) {}
  Natural(Flat p, Flat s) : precision(std::move(p)), shift(std::move(s)) {}
  NaturalView view() { return {precision, shift}; }
  ConstNaturalView view() const { return {precision, shift}; }
  bool operator==(const Natural&) const = default;
};

struct Moments {
  Flat mean, precision;
  explicit Moments(std::size_t size) : mean(size), precision(size) {}
  Moments(Flat m, Flat p) : mean(std::move(m)), precision(std::move(p)) {}
  MeanView view() { return {mean, precision}; }
  ConstMeanView view() const { return {mean, precision}; }
  bool operator==(const Moments&) const = default;
};

// A proper Gaussian with precisions over eight orders of magnitude.
inline Moments random_moments(Stream& stream, std::size_t size) {
  Moments out(size);
  for (auto& mean : out.mean) mean = static_cast<float>(3.0 * stream.normal());
  for (auto& xi : out.precision) xi = static_cast<float>(std::pow(10.0, stream.uniform(-4.0, 4.0)));
  return out;
}

inline Natural natural(const Moments& moments) {
  Natural out(moments.mean.size());
  to_natural(moments.view(), out.view());
  return out;
}

inline Natural random_natural(Stream& stream, std::size_t size) {
  return natural(random_moments(stream, size));
}

// Sizes on both sides of the blocks and the lanes.
inline std::size_t random_size(Stream& stream) {
  return stream.below(4) == 0 ? 500 + stream.below(600) : 1 + stream.below(70);
}

}  // namespace parley::gauss::testing
