#include "parley/model/winograd.h"

#include <algorithm>
#include <cstdint>

#include "parley/model/dense.h"
#include "parley/model/kernels.h"

namespace parley {
namespace {

constexpr std::size_t kLanes = 8, kTile = 6, kKernel = 5, kOut = 2;
constexpr std::size_t kLine = 16;  // floats of a cache line

// Eight channels. Never passed by value: how that is done depends on the instruction set.
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
void weight_1d(const float* g, std::size_t from, float* u, std::size_t to) {
  const float even = g[0] + g[2 * from] + g[4 * from], odd = g[from] + g[3 * from];
  const float even2 = g[0] + 4.0f * g[2 * from] + 16.0f * g[4 * from], odd2 = 2.0f * g[from] + 8.0f * g[3 * from];
  u[0] = g[0] / 4.0f;
  u[to] = (even + odd) / -6.0f;
  u[2 * to] = (even - odd) / -6.0f;
  u[3 * to] = (even2 + odd2) / 24.0f;
  u[4 * to] = (even2 - odd2) / 24.0f;
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
      weight_(kPlaces * weight_step_),
      by_weight_(kPlaces * weight_step_),
      inputs_(kPlaces * input_step_),
      outputs_(kPlaces * output_step_) {}

void Winograd::transform_weight(const float* weight) {
  for (std::size_t out = 0; out < shape_.out; ++out) {
    for (std::size_t in = 0; in < shape_.in; ++in, weight += kKernel * kKernel) {
      float half[kTile * kKernel], whole[kPlaces];
      for (std::size_t j = 0; j < kKernel; ++j) weight_1d(weight + j, kKernel, half + j, kKernel);
      for (std::size_t i = 0; i < kTile; ++i) weight_1d(half + i * kKernel, 1, whole + i * kTile, 1);
      for (std::size_t place = 0; place < kPlaces; ++place) {
        weight_[place * weight_step_ + in * shape_.out + out] = whole[place];
      }
    }
  }
}

void Winograd::transform_inputs(const float* image) {
  const std::size_t channels = shape_.in, step = input_step_;
  for (std::size_t tile = 0; tile < tiles(); ++tile) {
    const auto top = static_cast<std::ptrdiff_t>(tile / columns_ * kOut) - static_cast<std::ptrdiff_t>(shape_.padding);
    const auto left = static_cast<std::ptrdiff_t>(tile % columns_ * kOut) - static_cast<std::ptrdiff_t>(shape_.padding);
    for (std::size_t c = 0; c < channels; c += kLanes) {
      Lanes d[kPlaces] = {}, half[kPlaces];
      for_inside(kTile, top, left, shape_.height, shape_.width, [&](std::size_t place, std::size_t y, std::size_t x) {
        load(image + (y * shape_.width + x) * channels + c, d[place]);
      });
      for (std::size_t j = 0; j < kTile; ++j) inputs_1d(d + j, kTile, half + j, kTile);
      for (std::size_t i = 0; i < kTile; ++i) inputs_1d(half + i * kTile, 1, d + i * kTile, 1);
      float* const to = inputs_.data() + tile * channels + c;
      for (std::size_t place = 0; place < kPlaces; ++place) store(d[place], to + place * step);
    }
  }
}

void Winograd::add_inputs_from_products(float* image) const {
  const std::size_t channels = shape_.in, step = input_step_;
  for (std::size_t tile = 0; tile < tiles(); ++tile) {
    const auto top = static_cast<std::ptrdiff_t>(tile / columns_ * kOut) - static_cast<std::ptrdiff_t>(shape_.padding);
    const auto left = static_cast<std::ptrdiff_t>(tile % columns_ * kOut) - static_cast<std::ptrdiff_t>(shape_.padding);
    for (std::size_t c = 0; c < channels; c += kLanes) {
      Lanes v[kPlaces], half[kPlaces];
      const float* const from = inputs_.data() + tile * channels + c;
      for (std::size_t place = 0; place < kPlaces; ++place) load(from + place * step, v[place]);
      for (std::size_t j = 0; j < kTile; ++j) inputs_adjoint_1d(v + j, kTile, half + j, kTile);
      for (std::size_t i = 0; i < kTile; ++i) inputs_adjoint_1d(half + i * kTile, 1, v + i * kTile, 1);
      for_inside(kTile, top, left, shape_.height, shape_.width, [&](std::size_t place, std::size_t y, std::size_t x) {
        float* const at = image + (y * shape_.width + x) * channels + c;
        Lanes sum;
        load(at, sum);
        sum += v[place];
        store(sum, at);
      });
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
  transform_weight(weight);
  for (std::size_t image = 0; image < images; ++image) {
    transform_inputs(inputs + image * shape_.inputs());
    for (std::size_t place = 0; place < kPlaces; ++place) {
      multiply(Form::plain, Form::plain, tiles(), shape_.out, shape_.in, inputs_.data() + place * input_step_,
               weight_.data() + place * weight_step_, outputs_.data() + place * output_step_);
    }
    outputs_from_products(bias, outputs + image * shape_.outputs());
  }
}

void Winograd::multiply_weight_gradient(bool first) {
  for (std::size_t place = 0; place < kPlaces; ++place) {
    multiply(Form::transposed, Form::plain, shape_.in, shape_.out, tiles(), inputs_.data() + place * input_step_,
             outputs_.data() + place * output_step_, by_weight_.data() + place * weight_step_, 1.0f,
             first ? 0.0f : 1.0f);
  }
}

void Winograd::multiply_input_gradient() {
  for (std::size_t place = 0; place < kPlaces; ++place) {
    multiply(Form::plain, Form::transposed, tiles(), shape_.in, shape_.out, outputs_.data() + place * output_step_,
             weight_.data() + place * weight_step_, inputs_.data() + place * input_step_);
  }
}

void Winograd::backward(std::size_t images, const float* inputs, const float* deltas, const float* weight,
                        float* by_weight, float* by_bias, float* by_inputs) {
  if (by_inputs != nullptr) transform_weight(weight);
  for (std::size_t image = 0; image < images; ++image) {
    transform_inputs(inputs + image * shape_.inputs());
    transform_deltas(deltas + image * shape_.outputs());
    multiply_weight_gradient(image == 0);
    if (by_inputs == nullptr) continue;
    multiply_input_gradient();
    float* const to = by_inputs + image * shape_.inputs();
    std::fill_n(to, shape_.inputs(), 0.0f);
    add_inputs_from_products(to);
  }
  weight_from_products(by_weight);
  if (by_bias != nullptr) sum_rows(images * shape_.positions(), deltas, {by_bias, shape_.out});
}

}  // namespace parley
