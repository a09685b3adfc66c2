// How two parents make a child (Kiss 2021, §5.3). All randomness comes from the stream.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "parley/base/options.h"
#include "parley/base/random.h"
#include "parley/tensor/layout.h"

namespace parley {

class Crossover {
 public:
  // halving, interleave, mean: on the flat vector, eqs. 5.1 to 5.3. kernelwise: what belongs together stays together.
  enum class Kind { halving, interleave, mean, kernelwise };

  Crossover(Kind kind, const Layout& layout);
  // All of the size of the layout's trainable part.
  void cross(std::span<const float> a, std::span<const float> b, Stream& stream, std::span<float> child) const;

 private:
  void cross_groups(std::span<const float> a, std::span<const float> b, Stream& stream, std::span<float> child) const;

  Kind kind_;
  std::vector<std::uint32_t> group_;  // of each weight; kernelwise only
  std::size_t groups_ = 0;
};

// The kernelwise group of each trainable weight, numbered from 0: a convolution's weights at one position of its
// kernels, over all filters and channels; all that comes into one dense unit, bias included; any other number alone.
std::vector<std::uint32_t> kernelwise_groups(const Layout& layout);

// Changes each weight with probability `chance`.
class Mutation {
 public:
  // multiply by 1 ± rate %, add ± offset, or by turns at random, a coin a weight.
  enum class Kind { multiply, offset, mixture };

  Mutation(Kind kind, double chance, double rate, double offset)
      : kind_(kind), chance_(chance), rate_(rate), offset_(offset) {}
  // `boost` multiplies chance, rate and offset.
  void mutate(double boost, Stream& stream, std::span<float> weights) const;

 private:
  Kind kind_;
  double chance_, rate_, offset_;
};

}  // namespace parley
