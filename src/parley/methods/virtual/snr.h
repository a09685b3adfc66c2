// Signal-to-noise ratios of Gaussian weights, |μ|/σ (Corinzia et al. 2019, §IV-F): which of a delta's are worth
// sending, and how many a posterior has of which size.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "parley/gauss/diagonal.h"
#include "parley/tensor/layout.h"
#include "parley/update/packing.h"

namespace parley {

// Sets both numbers of a delta to 0 where its signal-to-noise ratio |χ|/√|ξ| is below the `share` quantile of its
// tensor. `noise` are the ξ of the ratio: the delta's own, or those of the posterior it leads to. The output layer, the
// last in the layout, is kept whole. Returns the tensors as pack_sparse() takes them; at share = 0 nothing changes, and
// there are none.
std::vector<SparseSegment> prune_by_snr(const Layout& layout, double share, std::span<const float> noise,
                                        gauss::NaturalView delta);

// How many weights of each trained tensor have which ratio: kSnrBins counts a tensor, over log₁₀(|μ|/σ) from kLeastSnr
// to kMostSnr; what lies outside counts in the first or last.
inline constexpr std::size_t kSnrBins = 64;
inline constexpr float kLeastSnr = -4.0f, kMostSnr = 4.0f;
// The places of the counts: an entry of kSnrBins for each trained one of `layout`, by the same name.
Layout snr_layout(const Layout& layout);
void count_snr(const Layout& layout, std::span<const float> mean, std::span<const float> rho, std::span<float> counts);

}  // namespace parley
