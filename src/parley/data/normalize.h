// How values become inputs.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parley/data/dataset.h"

namespace parley {

// The transform of data.normalize ("auto", "unit", "standard", "none"), measured on `train`. A
// channel is the first extent of {c, h, w} or one feature of {f}; other shapes have one channel. A
// constant channel is only shifted. Throws InputError when tokens are to be scaled.
Affine normalizer(const Dataset& train, const std::string& kind);

// What data.normalize = `kind` comes to for these data: "unit", "standard" or "none".
std::string normalization(const Dataset& data, const std::string& kind);

// How many scales a transform of these data has.
std::size_t channels_of(const Dataset& data);

// Gives each target mean 0 and deviation 1 over `train`, in both parts; a constant target is only shifted.
void standardize_targets(Dataset& train, Dataset& test);

// --- Data that lie in several places ---

// Of one channel or one target, in its own units: what is needed to standardise data whose rows stay where they are.
struct Moments {
  double mean = 0.0;
  double variance = 0.0;

  bool operator==(const Moments&) const = default;
};
std::vector<Moments> input_moments(const Dataset& data);
std::vector<Moments> target_moments(const Dataset& data);

// Mean 0 and deviation 1 over all parts together. REQUIRES as many moments in each, and rows in at least one.
struct MeasuredPart {
  std::size_t rows = 0;
  std::vector<Moments> moments;
};
Affine standardizer(std::span<const MeasuredPart> parts);

// What all must agree on, so that a number means the same everywhere.
struct Scales {
  Affine inputs, targets;  // empty: as they are
};
// The same data in these scales, whatever they were in before. Throws InputError when there are more or fewer channels
// or targets.
std::shared_ptr<const Dataset> rescaled(const Dataset& data, const Scales& scales);

}  // namespace parley
