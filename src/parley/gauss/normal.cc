#include "parley/gauss/normal.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "parley/gauss/elementary.h"
#include "parley/gauss/loops.h"

namespace parley::gauss {
namespace {

constexpr std::size_t kLanes = 16;   // generators side by side: two of the widest registers for each word of state
constexpr std::size_t kPairs = 256;  // a word of bits makes a pair of normals
constexpr std::size_t kBlock = 2 * kPairs;
using Words = std::array<std::uint64_t, kPairs>;
using Normals = std::array<float, kBlock>;

// The finaliser of SplitMix64 (Steele et al. 2014): neighbouring inputs, unrelated outputs.
std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

std::uint64_t rotate_left(std::uint64_t x, int k) {
  return (x << k) | (x >> (64 - k));
}

// Sixteen xoshiro256++ generators (as Stream), seeded from four words of a stream.
class Lanes {
 public:
  explicit Lanes(Stream& stream) {
    for (auto& word : state_) {
      const std::uint64_t key = stream.bits();
      for (std::size_t lane = 0; lane < kLanes; ++lane) word[lane] = mix(key + (lane + 1) * 0x9e3779b97f4a7c15ULL);
    }
  }

  void fill(Words& words) {
    for (std::size_t begin = 0; begin < kPairs; begin += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        std::uint64_t a = state_[0][lane], b = state_[1][lane], c = state_[2][lane], d = state_[3][lane];
        words[begin + lane] = rotate_left(a + d, 23) + a;
        const std::uint64_t t = b << 17;
        c ^= a;
        d ^= b;
        b ^= c;
        a ^= d;
        c ^= t;
        state_[0][lane] = a;
        state_[1][lane] = b;
        state_[2][lane] = c;
        state_[3][lane] = rotate_left(d, 45);
      }
    }
  }

 private:
  alignas(64) std::array<std::array<std::uint64_t, kLanes>, 4> state_;
};

// A pair of independent normals from 64 bits. The angle is drawn in the quarter circle about the first axis, where the
// short series of Cephes (sinf.c) hold, and turned into one of the four quarters by two further bits.
void box_muller(std::uint64_t bits, float& first, float& second) {
  const auto high = static_cast<float>(static_cast<std::int32_t>(bits >> 33));            // 31 bits
  const auto low = static_cast<float>(static_cast<std::int32_t>((bits >> 24) & 0x1ffu));  // 9 more, for the far tail
  const float uniform = (high + (low + 0.5f) * 0x1p-9f) * 0x1p-31f;                       // (0, 1]
  const float radius = std::sqrt(-2.0f * log_float(uniform));
  const auto angle = static_cast<std::int32_t>(bits & 0xffffffu);
  const auto turn = static_cast<float>((angle & 0x3fffff) - 0x200000) + 0.5f;
  const float x = turn * (std::numbers::pi_v<float> * 0x1p-23f);  // (−π/4, π/4)
  const float z = x * x;
  const float sine = x + x * z * (-1.6666654611e-1f + z * (8.3321608736e-3f + z * -1.9515295891e-4f));
  const float cosine =
      1.0f - 0.5f * z + z * z * (4.166664568298827e-2f + z * (-1.388731625493765e-3f + z * 2.443315711809948e-5f));
  const float along = (angle & 0x400000) != 0 ? -cosine : cosine;
  const bool swap = (angle & 0x800000) != 0;
  first = radius * (swap ? sine : along);
  second = radius * (swap ? along : sine);
}

class Blocks {
 public:
  explicit Blocks(Stream& stream) : lanes_(stream) {}
  const Normals& next() {
    lanes_.fill(words_);
    for (std::size_t i = 0; i < kPairs; ++i) box_muller(words_[i], normals_[i], normals_[i + kPairs]);
    return normals_;
  }

 private:
  Lanes lanes_;
  alignas(64) Words words_;
  alignas(64) Normals normals_;
};

}  // namespace

void fill_normal(Stream& stream, std::span<float> out) {
  Blocks blocks(stream);
  for (std::size_t begin = 0; begin < out.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, out.size() - begin);
    std::copy_n(blocks.next().begin(), count, out.begin() + static_cast<std::ptrdiff_t>(begin));
  }
}

void sample(ConstMeanView gaussian, float scale, Stream& stream, std::span<float> theta) {
  assert(gaussian.mean.size() == theta.size() && gaussian.precision.size() == theta.size());
  Blocks blocks(stream);
  for (std::size_t begin = 0; begin < theta.size(); begin += kBlock) {
    const float *z = blocks.next().data(), *mu = gaussian.mean.data() + begin, *xi = gaussian.precision.data() + begin;
    float* to = theta.data() + begin;
    for_each(std::min(kBlock, theta.size() - begin),
             [=](std::size_t i) { to[i] = mu[i] + scale * z[i] / std::sqrt(xi[i]); });
  }
}

}  // namespace parley::gauss
