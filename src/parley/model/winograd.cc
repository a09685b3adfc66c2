#include "parley/model/winograd.h"

#include <algorithm>
#include <cstdint>

#include "parley/model/dense.h"

namespace parley {
namespace {

constexpr std::size_t kTile = 6, kKernel = 5, kOut = 2;
constexpr std::size_t kLine = 16;  // floats of a cache line
// Channels at a time, as wide as the registers; and how many rows and vectors of a product fit into those.
#ifdef __AVX512F__
constexpr std::size_t kLanes = 16, kMostRows = 6, kMostVectors = 4;
#else
constexpr std::size_t kLanes = 8, kMostRows = 6, kMostVectors = 2;
#endif

// Some channels. Never passed by value: how that is done depends on the instruction set.
typedef float Lanes __attribute__((vector_size(4 * kLanes)));
typedef float LanesAnywhere __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));

void load(const float* from, Lanes& to) {
  to = *reinterpret_cast<const LanesAnywhere*>(from);
}
void store(const Lanes& value, float* to) {
  *reinterpret_cast<LanesAnywhere*>(to) = value;
}

// The transforms in one dimension, for the points 0, 1, −1, 2, −2, ∞; `from` and `to` are steps in their arrays.

// Bᵀd: inputs of a tile.
void inputs_1d(const Lanes* d, std::size_t from, Lanes* v, std::size_t to) {
  const Lanes even = d[4 * from] - 4 * d[2 * from], odd = d[3 * from] - 4 * d[from];
  const Lanes even2 = d[4 * from] - d[2 * from], odd2 = 2 * (d[3 * from] - d[from]);
  v[0] = 4 * d[0] - 5 * d[2 * from] + d[4 * from];
  v[to] = even + odd;
  v[2 * to] = even - odd;
  v[3 * to] = even2 + odd2;
  v[4 * to] = even2 - odd2;
  v[5 * to] = 4 * d[from] - 5 * d[3 * from] + d[5 * from];
}

// Bv, its adjoint: back to the inputs.
void inputs_adjoint_1d(const Lanes* v, std::size_t from, Lanes* d, std::size_t to) {
  const Lanes sum = v[from] + v[2 * from], difference = v[from] - v[2 * from];
  const Lanes sum2 = v[3 * from] + v[4 * from], difference2 = v[3 * from] - v[4 * from];
  d[0] = 4 * v[0];
  d[to] = 4 * v[5 * from] - 4 * difference - 2 * difference2;
  d[2 * to] = -5 * v[0] - 4 * sum - sum2;
  d[3 * to] = difference + 2 * difference2 - 5 * v[5 * from];
  d[4 * to] = v[0] + sum + sum2;
  d[5 * to] = v[5 * from];
}

// Aᵀm: the two outputs of a tile.
void outputs_1d(const Lanes* m, std::size_t from, Lanes* y, std::size_t to) {
  y[0] = m[0] + (m[from] + m[2 * from]) + (m[3 * from] + m[4 * from]);
  y[to] = (m[from] - m[2 * from]) + 2 * (m[3 * from] - m[4 * from]) + m[5 * from];
}

// Ay, its adjoint: from the gradients at the outputs.
void outputs_adjoint_1d(const Lanes* y, std::size_t from, Lanes* m, std::size_t to) {
  m[0] = y[0];
  m[to] = y[0] + y[from];
  m[2 * to] = y[0] - y[from];
  m[3 * to] = y[0] + 2 * y[from];
  m[4 * to] = y[0] - 2 * y[from];
  m[5 * to] = y[from];
}

// Gg: a kernel.
void weight_1d(const Lanes* g, std::size_t from, Lanes* u, std::size_t to) {
  const Lanes even = g[0] + g[2 * from] + g[4 * from], odd = g[from] + g[3 * from];
  const Lanes even2 = g[0] + 4 * g[2 * from] + 16 * g[4 * from], odd2 = 2 * g[from] + 8 * g[3 * from];
  u[0] = g[0] / 4;
  u[to] = (even + odd) / -6;
  u[2 * to] = (even - odd) / -6;
  u[3 * to] = (even2 + odd2) / 24;
  u[4 * to] = (even2 - odd2) / 24;
  u[5 * to] = g[4 * from];
}

// Gᵀu, its adjoint: the gradient at a kernel.
void weight_adjoint_1d(const Lanes* u, std::size_t from, Lanes* g, std::size_t to) {
  const Lanes sum = (u[from] + u[2 * from]) / 6, difference = (u[from] - u[2 * from]) / 6;
  const Lanes sum2 = (u[3 * from] + u[4 * from]) / 24, difference2 = (u[3 * from] - u[4 * from]) / 24;
  g[0] = u[0] / 4 - sum + sum2;
  g[to] = 2 * difference2 - difference;
  g[2 * to] = 4 * sum2 - sum;
  g[3 * to] = 8 * difference2 - difference;
  g[4 * to] = 16 * sum2 - sum + u[5 * from];
}

// Visits the part of a tile of `side` × `side` numbers that lies inside of a plane: use(place in the tile, row,
// column).
template <class Use>
void for_inside(std::size_t side, std::ptrdiff_t top, std::ptrdiff_t left, std::size_t height, std::size_t width,
                Use use) {
  for (std::size_t i = 0; i < side; ++i) {
    for (std::size_t j = 0; j < side; ++j) {
      const auto y = static_cast<std::size_t>(top + static_cast<std::ptrdiff_t>(i));  // huge when it is negative
      const auto x = static_cast<std::size_t>(left + static_cast<std::ptrdiff_t>(j));
      if (y < height && x < width) use(i * side + j, y, x);
    }
  }
}

// --- Products ---
//
// Of matrices so small that oneDNN's copies of them and its calls are felt.

// The left operand: element (row, k) at data[row·to_row + k·to_inner].
struct Left {
  const float* data;
  std::size_t to_row, to_inner;
};

// Rows × (Vectors · kLanes) of C = A·B, or C += A·B; all of them in registers meanwhile. B and C have `stride` floats
// from row to row.
template <std::size_t Rows, std::size_t Vectors, bool Add>
void multiply_block(const Left& a, const float* b, std::size_t inner, float* c, std::size_t stride) {
  Lanes sums[Rows][Vectors];
  for (std::size_t i = 0; i < Rows; ++i) {
    for (std::size_t j = 0; j < Vectors; ++j) {
      sums[i][j] = Lanes{};
      if (Add) load(c + i * stride + j * kLanes, sums[i][j]);
    }
  }
  for (std::size_t k = 0; k < inner; ++k, b += stride) {
    Lanes row[Vectors];
    for (std::size_t j = 0; j < Vectors; ++j) load(b + j * kLanes, row[j]);
    for (std::size_t i = 0; i < Rows; ++i) {
      const float factor = a.data[i * a.to_row + k * a.to_inner];
      for (std::size_t j = 0; j < Vectors; ++j) sums[i][j] += factor * row[j];
    }
  }
  for (std::size_t i = 0; i < Rows; ++i) {
    for (std::size_t j = 0; j < Vectors; ++j) store(sums[i][j], c + i * stride + j * kLanes);
  }
}

template <std::size_t Vectors, bool Add>
void multiply_rows(std::size_t rows, const Left& a, const float* b, std::size_t inner, float* c, std::size_t stride) {
  switch (rows) {
    case 6: return multiply_block<6, Vectors, Add>(a, b, inner, c, stride);
    case 5: return multiply_block<5, Vectors, Add>(a, b, inner, c, stride);
    case 4: return multiply_block<4, Vectors, Add>(a, b, inner, c, stride);
    case 3: return multiply_block<3, Vectors, Add>(a, b, inner, c, stride);
    case 2: return multiply_block<2, Vectors, Add>(a, b, inner, c, stride);
    default: return multiply_block<1, Vectors, Add>(a, b, inner, c, stride);
  }
}

// C = A·B, or C += A·B, where B and C are dense and `columns` wide, a multiple of kLanes.
template <bool Add>
void multiply_small(std::size_t rows, std::size_t columns, std::size_t inner, const Left& a, const float* b, float* c) {
  const std::size_t blocks = (rows + kMostRows - 1) / kMostRows;  // of nearly the same height
  for (std::size_t column = 0; column < columns;) {
    const bool wide = columns - column >= kMostVectors * kLanes;
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::size_t row = rows * block / blocks, height = rows * (block + 1) / blocks - row;
      const Left from{a.data + row * a.to_row, a.to_row, a.to_inner};
      float* const to = c + row * columns + column;
      wide ? multiply_rows<kMostVectors, Add>(height, from, b + column, inner, to, columns)
           : multiply_rows<1, Add>(height, from, b + column, inner, to, columns);
    }
    column += wide ? kMostVectors * kLanes : kLanes;
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
      weight_step_(shape.in * shape.out + kLine),
      input_step_(tiles() * shape.in + kLine),
      output_step_(tiles() * shape.out + kLine),
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

// A row of tiles at a time. Neighbouring tiles share four of their six columns, so each column of the image is
// transformed once, into half_, and what is left to each tile are its rows.
void Winograd::transform_inputs(const float* image) {
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
      inputs_1d(d, 1, v, 1);
      for (std::size_t i = 0; i < kTile; ++i) store(v[i], half + i * half_step_ + shape_.padding * channels + x);
    }
    for (std::size_t column = 0; column < columns_; ++column) {
      float* const to = inputs_.data() + (tile_row * columns_ + column) * channels;
      for (std::size_t i = 0; i < kTile; ++i) {
        for (std::size_t c = 0; c < channels; c += kLanes) {
          Lanes d[kTile], v[kTile];
          const float* const at = half + i * half_step_ + column * kOut * channels + c;
          for (std::size_t j = 0; j < kTile; ++j) load(at + j * channels, d[j]);
          inputs_1d(d, 1, v, 1);
          for (std::size_t j = 0; j < kTile; ++j) store(v[j], to + (i * kTile + j) * input_step_ + c);
        }
      }
    }
  }
}

// The adjoint: rows of the tiles first, summed where tiles overlap, then the columns.
void Winograd::inputs_from_products(float* image) {
  const std::size_t channels = shape_.in, width = shape_.width * channels;
  constexpr std::size_t kShared = kTile - kOut;
  float* const half = by_half_.data();
  for (std::size_t tile_row = 0; tile_row < rows_; ++tile_row) {
    for (std::size_t i = 0; i < kTile; ++i) {
      for (std::size_t c = 0; c < channels; c += kLanes) {
        const float* from = inputs_.data() + i * kTile * input_step_ + tile_row * columns_ * channels + c;
        float* to = half + i * half_step_ + c;
        Lanes shared[kShared] = {};
        for (std::size_t column = 0; column < columns_; ++column, from += channels, to += kOut * channels) {
          Lanes v[kTile], d[kTile];
          for (std::size_t j = 0; j < kTile; ++j) load(from + j * input_step_, v[j]);
          inputs_adjoint_1d(v, 1, d, 1);
          for (std::size_t j = 0; j < kShared; ++j) d[j] += shared[j];
          for (std::size_t j = 0; j < kOut; ++j) store(d[j], to + j * channels);
          for (std::size_t j = 0; j < kShared; ++j) shared[j] = d[kOut + j];
        }
        for (std::size_t j = 0; j < kShared; ++j) store(shared[j], to + j * channels);
      }
    }
    for (std::size_t x = 0; x < width; x += kLanes) {
      Lanes v[kTile], d[kTile];
      for (std::size_t i = 0; i < kTile; ++i) load(half + i * half_step_ + shape_.padding * channels + x, v[i]);
      inputs_adjoint_1d(v, 1, d, 1);
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

void Winograd::transform_deltas(const float* deltas) {
  const std::size_t channels = shape_.out, step = output_step_, width = shape_.out_width();
  for (std::size_t tile = 0; tile < tiles(); ++tile) {
    const auto top = static_cast<std::ptrdiff_t>(tile / columns_ * kOut);
    const auto left = static_cast<std::ptrdiff_t>(tile % columns_ * kOut);
    for (std::size_t c = 0; c < channels; c += kLanes) {
      Lanes y[kOut * kOut] = {}, half[kTile * kOut], m[kPlaces];
      for_inside(kOut, top, left, shape_.out_height(), width, [&](std::size_t place, std::size_t row, std::size_t x) {
        load(deltas + (row * width + x) * channels + c, y[place]);
      });
      for (std::size_t j = 0; j < kOut; ++j) outputs_adjoint_1d(y + j, kOut, half + j, kOut);
      for (std::size_t i = 0; i < kTile; ++i) outputs_adjoint_1d(half + i * kOut, 1, m + i * kTile, 1);
      float* const to = outputs_.data() + tile * channels + c;
      for (std::size_t place = 0; place < kPlaces; ++place) store(m[place], to + place * step);
    }
  }
}

void Winograd::outputs_from_products(const float* bias, float* outputs) const {
  const std::size_t channels = shape_.out, step = output_step_, width = shape_.out_width();
  for (std::size_t tile = 0; tile < tiles(); ++tile) {
    const auto top = static_cast<std::ptrdiff_t>(tile / columns_ * kOut);
    const auto left = static_cast<std::ptrdiff_t>(tile % columns_ * kOut);
    for (std::size_t c = 0; c < channels; c += kLanes) {
      Lanes m[kPlaces], half[kOut * kTile], y[kOut * kOut], shift = {};
      if (bias != nullptr) load(bias + c, shift);
      const float* const from = outputs_.data() + tile * channels + c;
      for (std::size_t place = 0; place < kPlaces; ++place) load(from + place * step, m[place]);
      for (std::size_t j = 0; j < kTile; ++j) outputs_1d(m + j, kTile, half + j, kTile);
      for (std::size_t i = 0; i < kOut; ++i) outputs_1d(half + i * kTile, 1, y + i * kOut, 1);
      for_inside(kOut, top, left, shape_.out_height(), width, [&](std::size_t place, std::size_t row, std::size_t x) {
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

void Winograd::forward(std::size_t images, const float* inputs, const float* weight, const float* bias,
                       float* outputs) {
  constexpr std::size_t kEach = kKernel * kKernel;
  transform_weight(weight, shape_.in, kEach, shape_.out, shape_.in * kEach);  // [in, out]
  for (std::size_t image = 0; image < images; ++image) {
    transform_inputs(inputs + image * shape_.inputs());
    for (std::size_t place = 0; place < kPlaces; ++place) {
      multiply_small<false>(tiles(), shape_.out, shape_.in, {inputs_.data() + place * input_step_, shape_.in, 1},
                            weight_.data() + place * weight_step_, outputs_.data() + place * output_step_);
    }
    outputs_from_products(bias, outputs + image * shape_.outputs());
  }
}

void Winograd::multiply_weight_gradient(bool first) {
  for (std::size_t place = 0; place < kPlaces; ++place) {
    const Left transposed{inputs_.data() + place * input_step_, 1, shape_.in};
    const float* const deltas = outputs_.data() + place * output_step_;
    float* const to = by_weight_.data() + place * weight_step_;
    first ? multiply_small<false>(shape_.in, shape_.out, tiles(), transposed, deltas, to)
          : multiply_small<true>(shape_.in, shape_.out, tiles(), transposed, deltas, to);
  }
}

void Winograd::multiply_input_gradient() {
  for (std::size_t place = 0; place < kPlaces; ++place) {
    multiply_small<false>(tiles(), shape_.in, shape_.out, {outputs_.data() + place * output_step_, shape_.out, 1},
                          weight_.data() + place * weight_step_, inputs_.data() + place * input_step_);
  }
}

void Winograd::backward(std::size_t images, const float* inputs, const float* deltas, const float* weight,
                        float* by_weight, float* by_bias, float* by_inputs) {
  constexpr std::size_t kEach = kKernel * kKernel;
  if (by_inputs != nullptr) transform_weight(weight, shape_.out, shape_.in * kEach, shape_.in, kEach);  // [out, in]
  for (std::size_t image = 0; image < images; ++image) {
    transform_inputs(inputs + image * shape_.inputs());
    transform_deltas(deltas + image * shape_.outputs());
    multiply_weight_gradient(image == 0);
    if (by_inputs == nullptr) continue;
    multiply_input_gradient();
    inputs_from_products(by_inputs + image * shape_.inputs());
  }
  weight_from_products(by_weight);
  if (by_bias != nullptr) sum_rows(images * shape_.positions(), deltas, {by_bias, shape_.out});
}

}  // namespace parley
