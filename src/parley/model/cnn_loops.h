// The loops of the native convolutional networks, over images with their channels last: what is done between two
// convolutions, each in one pass. All vectorise over the channels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace parley {

// Outputs of a convolution; `images` of height × width × channels.
struct Planes {
  std::size_t images, height, width, channels;

  std::size_t positions() const { return height * width; }
  std::size_t size() const { return images * positions() * channels; }
};

// relu(scale·z + shift) with a scale and shift for each image's channels.
void scale_and_relu(const Planes& planes, const float* z, const float* scale, const float* shift, float* activation);
// The largest of each 2 × 2 of relu(scale·z + shift), and which of the four it was; an odd row or column is left out.
void scale_relu_and_pool(const Planes& planes, const float* z, const float* scale, const float* shift,
                         float* activation, std::int32_t* largest);

// From the gradient at the activation to the one at scale·z + shift.
void back_through_relu(const Planes& planes, const float* activation, const float* delta, float* to);
void back_through_pool(const Planes& planes, const float* activation, const std::int32_t* largest, const float* delta,
                       float* to);

// Σ over an image's positions of a, and of a·b, for each of its channels.
void sum_channels(const Planes& planes, const float* a, const float* b, double* sums, double* products);
// delta = by_delta·delta + by_z·z + shift, with those of each image's channels.
void combine_channels(const Planes& planes, const float* by_delta, const float* by_z, const float* shift,
                      const float* z, float* delta);

}  // namespace parley
