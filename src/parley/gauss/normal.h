// Standard normals by the million, and draws from a Gaussian.
//
// Stream::normal() makes one double at a time through the standard library. Bayesian layers draw as many numbers as
// they have weights or outputs, every step; these functions make floats in blocks that the compiler vectorises.
#pragma once

#include <span>

#include "parley/base/random.h"
#include "parley/gauss/diagonal.h"

namespace parley::gauss {

// Fills `out` with independent N(0, 1).
//
// Same stream, same numbers; each call takes four words from the stream, whatever the size, and a shorter fill is the
// beginning of a longer one. Box & Muller (1958) with 40 bits for the radius, so |z| reaches 7.5, and 24 for the angle.
void fill_normal(Stream& stream, std::span<float> out);

// θ = μ + scale·σ·z, one draw. scale² tempers the covariance; 0 gives the mean. REQUIRES a proper Gaussian.
void sample(ConstMeanView gaussian, float scale, Stream& stream, std::span<float> theta);

}  // namespace parley::gauss
