#include "parley/model/cnn_loops.h"

#include <algorithm>
#include <cstring>

namespace parley {
namespace {

// Keeps a NaN, so that a client that diverges is seen.
float relu(float x) {
  return x < 0.0f ? 0.0f : x;
}

}  // namespace

void scale_and_relu(const Planes& planes, const float* z, const float* scale, const float* shift, float* activation) {
  const std::size_t channels = planes.channels;
  for (std::size_t image = 0; image < planes.images; ++image, scale += channels, shift += channels) {
    for (std::size_t p = 0; p < planes.positions(); ++p, z += channels, activation += channels) {
#pragma GCC ivdep
      for (std::size_t c = 0; c < channels; ++c) activation[c] = relu(scale[c] * z[c] + shift[c]);
    }
  }
}

void scale_relu_and_pool(const Planes& planes, const float* z, const float* scale, const float* shift,
                         float* activation, std::int32_t* largest) {
  const std::size_t channels = planes.channels, row = planes.width * channels;
  for (std::size_t image = 0; image < planes.images; ++image, scale += channels, shift += channels) {
    for (std::size_t y = 0; y < planes.height / 2; ++y) {
      const float* from = z + image * planes.height * row + 2 * y * row;
      for (std::size_t x = 0; x < planes.width / 2; ++x, from += 2 * channels) {
        const float *a = from, *b = from + channels, *c = from + row, *d = c + channels;
#pragma GCC ivdep
        for (std::size_t i = 0; i < channels; ++i) {
          float best = scale[i] * a[i] + shift[i];
          std::int32_t place = 0;
          const float second = scale[i] * b[i] + shift[i], third = scale[i] * c[i] + shift[i],
                      fourth = scale[i] * d[i] + shift[i];
          const auto consider = [&](float value, std::int32_t where) {
            const bool taken = (value > best) | (value != value);  // the first of equals, and any NaN
            best = taken ? value : best;
            place = taken ? where : place;
          };
          consider(second, 1);
          consider(third, 2);
          consider(fourth, 3);
          activation[i] = relu(best);
          largest[i] = place;
        }
        activation += channels;
        largest += channels;
      }
    }
  }
}

void back_through_relu(const Planes& planes, const float* activation, const float* delta, float* to) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < planes.size(); ++i) to[i] = activation[i] > 0.0f ? delta[i] : 0.0f;
}

void back_through_pool(const Planes& planes, const float* activation, const std::int32_t* largest, const float* delta,
                       float* to) {
  const std::size_t channels = planes.channels, row = planes.width * channels;
  if (planes.height % 2 != 0 || planes.width % 2 != 0) std::fill_n(to, planes.size(), 0.0f);
  for (std::size_t image = 0; image < planes.images; ++image) {
    for (std::size_t y = 0; y < planes.height / 2; ++y) {
      float* at = to + image * planes.height * row + 2 * y * row;
      for (std::size_t x = 0; x < planes.width / 2; ++x, at += 2 * channels) {
        float *a = at, *b = at + channels, *c = at + row, *d = c + channels;
#pragma GCC ivdep
        for (std::size_t i = 0; i < channels; ++i) {
          const float passed = activation[i] > 0.0f ? delta[i] : 0.0f;
          const std::int32_t place = largest[i];
          a[i] = place == 0 ? passed : 0.0f;
          b[i] = place == 1 ? passed : 0.0f;
          c[i] = place == 2 ? passed : 0.0f;
          d[i] = place == 3 ? passed : 0.0f;
        }
        activation += channels;
        largest += channels;
        delta += channels;
      }
    }
  }
}

void sum_channels(const Planes& planes, const float* a, const float* b, double* sums, double* products) {
  const std::size_t channels = planes.channels;
  for (std::size_t image = 0; image < planes.images; ++image, sums += channels, products += channels) {
    std::fill_n(sums, channels, 0.0);
    std::fill_n(products, channels, 0.0);
    for (std::size_t p = 0; p < planes.positions(); ++p, a += channels, b += channels) {
#pragma GCC ivdep
      for (std::size_t c = 0; c < channels; ++c) {
        const double value = a[c];
        sums[c] += value;
        products[c] += value * b[c];
      }
    }
  }
}

void combine_channels(const Planes& planes, const float* by_delta, const float* by_z, const float* shift,
                      const float* z, float* delta) {
  const std::size_t channels = planes.channels;
  for (std::size_t image = 0; image < planes.images; ++image) {
    for (std::size_t p = 0; p < planes.positions(); ++p, z += channels, delta += channels) {
#pragma GCC ivdep
      for (std::size_t c = 0; c < channels; ++c) delta[c] = by_delta[c] * delta[c] + by_z[c] * z[c] + shift[c];
    }
    by_delta += channels;
    by_z += channels;
    shift += channels;
  }
}

}  // namespace parley
