// Sparse updates (Corinzia et al. 2019, §IV-F): of each tensor only what stands out of its noise is sent.
#pragma once

#include <cstddef>
#include <span>

#include "parley/gauss/diagonal.h"
#include "parley/tensor/layout.h"

namespace parley {

struct SparseBytes {
  std::size_t places = 0;  // which elements are there
  std::size_t values = 0;  // of one vector
};

// Sets both numbers of a delta to 0 where its signal-to-noise ratio |μ|/σ = |χ|/√|ξ| is below the `share` quantile of
// its tensor. The output layer, the last in the layout, is kept whole. Returns the bytes of what is left: values, and
// their places as indices or as one bit an element, whichever is less. At share = 0 nothing changes and no places are
// sent.
SparseBytes prune_by_snr(const Layout& layout, double share, gauss::NaturalView delta);

}  // namespace parley
