#include "parley/model/winograd.h"

#include <algorithm>
#include <cstdint>

#include "parley/model/dense.h"
#include "parley/model/lanes.h"
#include "parley/model/small_products.h"

namespace parley {
namespace {

constexpr std::size_t kTile = 8, kKernel = 5, kOut = 4, kShared = kTile - kOut;
// Of several images: enough for the products to outweigh the reading of the transformed kernels, few enough for the
// transformed tiles to stay near.
constexpr std::size_t kTilesAtOnce = 64;
constexpr std::size_t kLine = 16;  // floats of a cache line
// The transforms in one dimension, for the points 0, 1, −1, 2, −2, 1/2, −1/2, ∞; `from` and `to` are steps in their
// arrays. What belongs to a point and its negative are a sum and a difference.

// Bᵀd: inputs of a tile.
inline void inputs_1d(const Lanes* d, Lanes* v) {
  const Lanes even1 = d[2] - 4.25f * d[4] + d[6], odd1 = d[1] - 4.25f * d[3] + d[5];
  const Lanes even2 = 0.25f * d[2] - 1.25f * d[4] + d[6], odd2 = 0.5f * d[1] - 2.5f * d[3] + 2 * d[5];
  const Lanes even_half = 4 * d[2] - 5 * d[4] + d[6], odd_half = 2 * d[1] - 2.5f * d[3] + 0.5f * d[5];
  v[0] = d[0] - d[6] + 5.25f * (d[4] - d[2]);
  v[1] = even1 + odd1;
  v[2] = even1 - odd1;
  v[3] = even2 + odd2;
  v[4] = even2 - odd2;
  v[5] = even_half + odd_half;
  v[6] = even_half - odd_half;
  v[7] = d[7] - d[1] + 5.25f * (d[3] - d[5]);
}

// Bv, its adjoint: back to the inputs.
inline void inputs_adjoint_1d(const Lanes* v, Lanes* d) {
  const Lanes sum1 = v[1] + v[2], difference1 = v[1] - v[2];
  const Lanes sum2 = v[3] + v[4], difference2 = v[3] - v[4];
  const Lanes sum_half = v[5] + v[6], difference_half = v[5] - v[6];
  d[0] = v[0];
  d[1] = difference1 + 0.5f * difference2 + 2 * difference_half - v[7];
  d[2] = sum1 + 0.25f * sum2 + 4 * sum_half - 5.25f * v[0];
  d[3] = 5.25f * v[7] - 4.25f * difference1 - 2.5f * (difference2 + difference_half);
  d[4] = 5.25f * v[0] - 4.25f * sum1 - 1.25f * sum2 - 5 * sum_half;
  d[5] = difference1 + 2 * difference2 + 0.5f * difference_half - 5.25f * v[7];
  d[6] = sum1 + sum2 + sum_half - v[0];
  d[7] = v[7];
}

// Aᵀm: the outputs of a tile.
void outputs_1d(const Lanes* m, std::size_t from, Lanes* y, std::size_t to) {
  const Lanes sum1 = m[from] + m[2 * from], difference1 = m[from] - m[2 * from];
  const Lanes sum2 = m[3 * from] + m[4 * from], difference2 = m[3 * from] - m[4 * from];
  const Lanes sum_half = m[5 * from] + m[6 * from], difference_half = m[5 * from] - m[6 * from];
  y[0] = m[0] + sum1 + sum2 + sum_half;
  y[to] = difference1 + 2 * difference2 + 0.5f * difference_half;
  y[2 * to] = sum1 + 4 * sum2 + 0.25f * sum_half;
  y[3 * to] = difference1 + 8 * difference2 + 0.125f * difference_half + m[7 * from];
}

// Ay, its adjoint: from the gradients at the outputs.
void outputs_adjoint_1d(const Lanes* y, std::size_t from, Lanes* m, std::size_t to) {
  const Lanes even1 = y[0] + y[2 * from], odd1 = y[from] + y[3 * from];
  const Lanes even2 = y[0] + 4 * y[2 * from], odd2 = 2 * y[from] + 8 * y[3 * from];
  const Lanes even_half = y[0] + 0.25f * y[2 * from], odd_half = 0.5f * y[from] + 0.125f * y[3 * from];
  m[0] = y[0];
  m[to] = even1 + odd1;
  m[2 * to] = even1 - odd1;
  m[3 * to] = even2 + odd2;
  m[4 * to] = even2 - odd2;
  m[5 * to] = even_half + odd_half;
  m[6 * to] = even_half - odd_half;
  m[7 * to] = y[3 * from];
}

// What a kernel's values at ±1, ±2 and ±1/2 are multiplied by: 1/∏(a − b) over the other points b.
constexpr float kAt1 = -2.0f / 9.0f, kAt2 = 1.0f / 90.0f, kAtHalf = 32.0f / 45.0f;

// Gg: a kernel.
void weight_1d(const Lanes* g, std::size_t from, Lanes* u, std::size_t to) {
  const Lanes even1 = g[0] + g[2 * from] + g[4 * from], odd1 = g[from] + g[3 * from];
  const Lanes even2 = g[0] + 4 * g[2 * from] + 16 * g[4 * from], odd2 = 2 * g[from] + 8 * g[3 * from];
  const Lanes even_half = g[0] + 0.25f * g[2 * from] + 0.0625f * g[4 * from];
  const Lanes odd_half = 0.5f * g[from] + 0.125f * g[3 * from];
  u[0] = g[0];
  u[to] = kAt1 * (even1 + odd1);
  u[2 * to] = kAt1 * (even1 - odd1);
  u[3 * to] = kAt2 * (even2 + odd2);
  u[4 * to] = kAt2 * (even2 - odd2);
  u[5 * to] = kAtHalf * (even_half + odd_half);
  u[6 * to] = kAtHalf * (even_half - odd_half);
  u[7 * to] = g[4 * from];
}

// Gᵀu, its adjoint: the gradient at a kernel.
void weight_adjoint_1d(const Lanes* u, std::size_t from, Lanes* g, std::size_t to) {
  const Lanes sum1 = kAt1 * (u[from] + u[2 * from]), difference1 = kAt1 * (u[from] - u[2 * from]);
  const Lanes sum2 = kAt2 * (u[3 * from] + u[4 * from]), difference2 = kAt2 * (u[3 * from] - u[4 * from]);
  const Lanes sum_half = kAtHalf * (u[5 * from] + u[6 * from]);
  const Lanes difference_half = kAtHalf * (u[5 * from] - u[6 * from]);
  g[0] = u[0] + sum1 + sum2 + sum_half;
  g[to] = difference1 + 2 * difference2 + 0.5f * difference_half;
  g[2 * to] = sum1 + 4 * sum2 + 0.25f * sum_half;
  g[3 * to] = difference1 + 8 * difference2 + 0.125f * difference_half;
  g[4 * to] = sum1 + 16 * sum2 + 0.0625f * sum_half + u[7 * from];
}

// Visits the part of a tile of outputs that lies inside of a plane: use(place in the tile, row, column).
template <class Use>
void for_inside(std::size_t top, std::size_t left, std::size_t height, std::size_t width, Use use) {
  for (std::size_t i = 0; i < kOut && top + i < height; ++i) {
    for (std::size_t j = 0; j < kOut && left + j < width; ++j) use(i * kOut + j, top + i, left + j);
  }
}

}  // namespace

bool Winograd::suits(const ConvolutionShape& shape) {
  constexpr std::size_t kLeastChannels = 32;
  return shape.kernel == kKernel && shape.in >= kLeastChannels && shape.out >= kLeastChannels &&
         shape.in % kLanes == 0 && shape.out % kLanes == 0;
}

Winograd::Winograd(const ConvolutionShape& shape)
    : shape_(shape),
      rows_((shape.out_height() + kOut - 1) / kOut),
      columns_((shape.out_width() + kOut - 1) / kOut),
      tiles_(rows_ * columns_),
      images_at_once_(std::max<std::size_t>(1, kTilesAtOnce / tiles_)),
      weight_step_(shape.in * shape.out + kLine),
      input_step_(images_at_once_ * tiles_ * shape.in + kLine),
      output_step_(images_at_once_ * tiles_ * shape.out + kLine),
      half_step_((kOut * columns_ + kTile - kOut) * shape.in),
      weight_(kPlaces * weight_step_),
      by_weight_(kPlaces * weight_step_),
      inputs_(kPlaces * input_step_),
      outputs_(kPlaces * output_step_),
      half_(kTile * half_step_),
      by_half_(kTile * half_step_),
      zeros_(shape.width * shape.in) {}

// To places × rows × columns, of kernels that lie `to_row` and `to_column` floats from each other.
void Winograd::transform_weight(const float* weight, std::size_t rows, std::size_t to_row, std::size_t columns,
                                std::size_t to_column) {
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; column += kLanes) {
      const float* const from = weight + row * to_row + column * to_column;
      Lanes g[kKernel * kKernel], half[kTile * kKernel], u[kPlaces];
      for (std::size_t place = 0; place < kKernel * kKernel; ++place) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) g[place][lane] = from[lane * to_column + place];
      }
      for (std::size_t j = 0; j < kKernel; ++j) weight_1d(g + j, kKernel, half + j, kKernel);
      for (std::size_t i = 0; i < kTile; ++i) weight_1d(half + i * kKernel, 1, u + i * kTile, 1);
      float* const to = weight_.data() + row * columns + column;
      for (std::size_t place = 0; place < kPlaces; ++place) store(u[place], to + place * weight_step_);
    }
  }
}

// A row of tiles at a time. Neighbouring tiles share four of their eight columns, so each column of the image is
// transformed once, into half_, and what is left to each tile are its rows.
void Winograd::transform_inputs(const float* image, float* tiles) {
  const std::size_t channels = shape_.in, width = shape_.width * channels;
  float* const half = half_.data();
  for (std::size_t tile_row = 0; tile_row < rows_; ++tile_row) {
    const float* from[kTile];
    for (std::size_t i = 0; i < kTile; ++i) {
      const std::size_t y = tile_row * kOut + i - shape_.padding;  // huge above the image
      from[i] = y < shape_.height ? image + y * width : zeros_.data();
    }
    for (std::size_t x = 0; x < width; x += kLanes) {
      Lanes d[kTile], v[kTile];
      for (std::size_t i = 0; i < kTile; ++i) load(from[i] + x, d[i]);
      inputs_1d(d, v);
      for (std::size_t i = 0; i < kTile; ++i) store(v[i], half + i * half_step_ + shape_.padding * channels + x);
    }
    for (std::size_t column = 0; column < columns_; ++column) {
      float* const to = tiles + (tile_row * columns_ + column) * channels;
      for (std::size_t i = 0; i < kTile; ++i) {
        for (std::size_t c = 0; c < channels; c += kLanes) {
          Lanes d[kTile], v[kTile];
          const float* const at = half + i * half_step_ + column * kOut * channels + c;
          for (std::size_t j = 0; j < kTile; ++j) load(at + j * channels, d[j]);
          inputs_1d(d, v);
          for (std::size_t j = 0; j < kTile; ++j) store(v[j], to + (i * kTile + j) * input_step_ + c);
        }
      }
    }
  }
}

// The rows of a row of tiles, summed where tiles overlap.
void Winograd::sum_tiles(const float* tiles) {
  const std::size_t channels = shape_.in;
  for (std::size_t i = 0; i < kTile; ++i) {
    for (std::size_t c = 0; c < channels; c += kLanes) {
      const float* from = tiles + i * kTile * input_step_ + c;
      float* to = by_half_.data() + i * half_step_ + c;
      Lanes shared[kShared] = {};
      for (std::size_t column = 0; column < columns_; ++column, from += channels, to += kOut * channels) {
        Lanes v[kTile], d[kTile];
        for (std::size_t j = 0; j < kTile; ++j) load(from + j * input_step_, v[j]);
        inputs_adjoint_1d(v, d);
        for (std::size_t j = 0; j < kShared; ++j) d[j] += shared[j];
        for (std::size_t j = 0; j < kOut; ++j) store(d[j], to + j * channels);
        for (std::size_t j = 0; j < kShared; ++j) shared[j] = d[kOut + j];
      }
      for (std::size_t j = 0; j < kShared; ++j) store(shared[j], to + j * channels);
    }
  }
}

// The adjoint of transform_inputs(): rows of the tiles first, then the columns.
void Winograd::inputs_from_products(const float* tiles, float* image) {
  const std::size_t channels = shape_.in, width = shape_.width * channels;
  const float* const half = by_half_.data() + shape_.padding * channels;
  for (std::size_t tile_row = 0; tile_row < rows_; ++tile_row) {
    sum_tiles(tiles + tile_row * columns_ * channels);
    for (std::size_t x = 0; x < width; x += kLanes) {
      Lanes v[kTile], d[kTile];
      for (std::size_t i = 0; i < kTile; ++i) load(half + i * half_step_ + x, v[i]);
      inputs_adjoint_1d(v, d);
      for (std::size_t i = 0; i < kTile; ++i) {
        const std::size_t y = tile_row * kOut + i - shape_.padding;
        if (y >= shape_.height) continue;
        float* const to = image + y * width + x;
        if (tile_row > 0 && i < kShared) {  // the row of tiles above has been here
          Lanes sum;
          load(to, sum);
          d[i] += sum;
        }
        store(d[i], to);
      }
    }
  }
}

void Winograd::transform_deltas(const float* deltas, float* tiles) const {
  const std::size_t channels = shape_.out, step = output_step_, width = shape_.out_width();
  for (std::size_t tile = 0; tile < tiles_; ++tile) {
    const std::size_t top = tile / columns_ * kOut, left = tile % columns_ * kOut;
    for (std::size_t c = 0; c < channels; c += kLanes) {
      Lanes y[kOut * kOut] = {}, half[kTile * kOut], m[kPlaces];
      for_inside(top, left, shape_.out_height(), width, [&](std::size_t place, std::size_t row, std::size_t x) {
        load(deltas + (row * width + x) * channels + c, y[place]);
      });
      for (std::size_t j = 0; j < kOut; ++j) outputs_adjoint_1d(y + j, kOut, half + j, kOut);
      for (std::size_t i = 0; i < kTile; ++i) outputs_adjoint_1d(half + i * kOut, 1, m + i * kTile, 1);
      float* const to = tiles + tile * channels + c;
      for (std::size_t place = 0; place < kPlaces; ++place) store(m[place], to + place * step);
    }
  }
}

void Winograd::outputs_from_products(const float* tiles, const float* bias, float* outputs) const {
  const std::size_t channels = shape_.out, step = output_step_, width = shape_.out_width();
  for (std::size_t tile = 0; tile < tiles_; ++tile) {
    const std::size_t top = tile / columns_ * kOut, left = tile % columns_ * kOut;
    for (std::size_t c = 0; c < channels; c += kLanes) {
      Lanes m[kPlaces], half[kOut * kTile], y[kOut * kOut], shift = {};
      if (bias != nullptr) load(bias + c, shift);
      const float* const from = tiles + tile * channels + c;
      for (std::size_t place = 0; place < kPlaces; ++place) load(from + place * step, m[place]);
      for (std::size_t j = 0; j < kTile; ++j) outputs_1d(m + j, kTile, half + j, kTile);
      for (std::size_t i = 0; i < kOut; ++i) outputs_1d(half + i * kTile, 1, y + i * kOut, 1);
      for_inside(top, left, shape_.out_height(), width, [&](std::size_t place, std::size_t row, std::size_t x) {
        store(y[place] + shift, outputs + (row * width + x) * channels + c);
      });
    }
  }
}

void Winograd::weight_from_products(float* weight) const {
  for (std::size_t in = 0; in < shape_.in; ++in) {
    for (std::size_t c = 0; c < shape_.out; c += kLanes) {
      Lanes u[kPlaces], half[kKernel * kTile], g[kKernel * kKernel];
      const float* const from = by_weight_.data() + in * shape_.out + c;
      for (std::size_t place = 0; place < kPlaces; ++place) load(from + place * weight_step_, u[place]);
      for (std::size_t j = 0; j < kTile; ++j) weight_adjoint_1d(u + j, kTile, half + j, kTile);
      for (std::size_t i = 0; i < kKernel; ++i) weight_adjoint_1d(half + i * kTile, 1, g + i * kKernel, 1);
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        float* const to = weight + ((c + lane) * shape_.in + in) * kKernel * kKernel;
        for (std::size_t place = 0; place < kKernel * kKernel; ++place) to[place] = g[place][lane];
      }
    }
  }
}

// Calls use(first image, number of images) for blocks of nearly the same size.
template <class Use>
void Winograd::for_blocks(std::size_t images, Use use) const {
  const std::size_t blocks = (images + images_at_once_ - 1) / images_at_once_;
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::size_t first = images * block / blocks;
    use(first, images * (block + 1) / blocks - first);
  }
}

void Winograd::forward(std::size_t images, const float* inputs, const float* weight, const float* bias,
                       float* outputs) {
  constexpr std::size_t kEach = kKernel * kKernel;
  transform_weight(weight, shape_.in, kEach, shape_.out, shape_.in * kEach);  // [in, out]
  for_blocks(images, [&](std::size_t first, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      transform_inputs(inputs + (first + i) * shape_.inputs(), inputs_.data() + i * tiles_ * shape_.in);
    }
    for (std::size_t place = 0; place < kPlaces; ++place) {
      multiply_small(count * tiles_, shape_.out, shape_.in, {inputs_.data() + place * input_step_, shape_.in, 1},
                     weight_.data() + place * weight_step_, outputs_.data() + place * output_step_);
    }
    for (std::size_t i = 0; i < count; ++i) {
      outputs_from_products(outputs_.data() + i * tiles_ * shape_.out, bias, outputs + (first + i) * shape_.outputs());
    }
  });
}

void Winograd::multiply_weight_gradient(std::size_t tiles, bool first) {
  for (std::size_t place = 0; place < kPlaces; ++place) {
    const Left transposed{inputs_.data() + place * input_step_, 1, shape_.in};
    const float* const deltas = outputs_.data() + place * output_step_;
    float* const to = by_weight_.data() + place * weight_step_;
    first ? multiply_small(shape_.in, shape_.out, tiles, transposed, deltas, to)
          : add_small_product(shape_.in, shape_.out, tiles, transposed, deltas, to);
  }
}

void Winograd::multiply_input_gradient(std::size_t tiles) {
  for (std::size_t place = 0; place < kPlaces; ++place) {
    multiply_small(tiles, shape_.in, shape_.out, {outputs_.data() + place * output_step_, shape_.out, 1},
                   weight_.data() + place * weight_step_, inputs_.data() + place * input_step_);
  }
}

void Winograd::backward(std::size_t images, const float* inputs, const float* deltas, const float* weight,
                        float* by_weight, float* by_bias, float* by_inputs) {
  constexpr std::size_t kEach = kKernel * kKernel;
  if (by_inputs != nullptr) transform_weight(weight, shape_.out, shape_.in * kEach, shape_.in, kEach);  // [out, in]
  for_blocks(images, [&](std::size_t first, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      transform_inputs(inputs + (first + i) * shape_.inputs(), inputs_.data() + i * tiles_ * shape_.in);
      transform_deltas(deltas + (first + i) * shape_.outputs(), outputs_.data() + i * tiles_ * shape_.out);
    }
    multiply_weight_gradient(count * tiles_, first == 0);
    if (by_inputs == nullptr) return;
    multiply_input_gradient(count * tiles_);
    for (std::size_t i = 0; i < count; ++i) {
      inputs_from_products(inputs_.data() + i * tiles_ * shape_.in, by_inputs + (first + i) * shape_.inputs());
    }
  });
  weight_from_products(by_weight);
  if (by_bias != nullptr) sum_rows(images * shape_.positions(), deltas, {by_bias, shape_.out});
}

}  // namespace parley
