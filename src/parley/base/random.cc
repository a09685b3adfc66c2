#include "parley/base/random.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>

namespace parley {
namespace {

std::uint64_t splitmix(std::uint64_t& x) {
  x += 0x9e3779b97f4a7c15ULL;
  std::uint64_t z = x;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// Absorbs one word; unlike a plain xor, the order of the words matters.
std::uint64_t absorb(std::uint64_t hash, std::uint64_t word) {
  std::uint64_t x = hash ^ (word * 0xff51afd7ed558ccdULL);
  return splitmix(x);
}

std::uint64_t rotate_left(std::uint64_t x, int k) {
  return (x << k) | (x >> (64 - k));
}

}  // namespace

Stream::Stream(std::uint64_t seed, std::string_view purpose, std::uint64_t round, std::uint64_t client) {
  std::uint64_t hash = absorb(0x7061726c6579ULL, seed);  // "parley"
  for (const char c : purpose) hash = absorb(hash, static_cast<unsigned char>(c));
  hash = absorb(hash, purpose.size());
  hash = absorb(hash, round);
  hash = absorb(hash, client);
  for (auto& word : state_) word = splitmix(hash);
}

std::uint64_t Stream::bits() {
  const std::uint64_t result = rotate_left(state_[0] + state_[3], 23) + state_[0];
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = rotate_left(state_[3], 45);
  return result;
}

double Stream::uniform() {
  return static_cast<double>(bits() >> 11) * 0x1.0p-53;
}

double Stream::uniform(double low, double high) {
  return low + (high - low) * uniform();
}

std::uint64_t Stream::below(std::uint64_t n) {
  assert(n > 0);
  const std::uint64_t limit = (0 - n) % n;  // 2^64 mod n: draws below it would favour small results
  for (;;) {
    const std::uint64_t draw = bits();
    if (draw >= limit) return draw % n;
  }
}

double Stream::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  const double angle = 2.0 * std::numbers::pi * uniform();
  spare_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

double Stream::gamma(double shape) {
  return std::exp(log_gamma_draw(shape));
}

// Marsaglia & Tsang (2000). Below shape 1 the draw is boosted by U^(1/shape), in logarithms: at shape 0.01 the value
// itself would often underflow to zero.
double Stream::log_gamma_draw(double shape) {
  assert(shape > 0);
  const double boosted = shape < 1.0 ? shape + 1.0 : shape;
  const double d = boosted - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = normal();
    const double t = 1.0 + c * x;
    if (t <= 0.0) continue;
    const double v = t * t * t;
    const double u = 1.0 - uniform();
    if (std::log(u) >= 0.5 * x * x + d - d * v + d * std::log(v)) continue;
    const double log_draw = std::log(d) + std::log(v);
    return shape < 1.0 ? log_draw + std::log(1.0 - uniform()) / shape : log_draw;
  }
}

std::vector<double> Stream::dirichlet(std::span<const double> alpha) {
  std::vector<double> draw(alpha.size());
  for (std::size_t i = 0; i < alpha.size(); ++i) draw[i] = log_gamma_draw(alpha[i]);
  const double largest = *std::max_element(draw.begin(), draw.end());
  double total = 0.0;
  for (auto& value : draw) total += value = std::exp(value - largest);
  for (auto& value : draw) value /= total;
  return draw;
}

}  // namespace parley
