#include "parley/model/curvature.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "parley/model/kernels.h"

namespace parley {
namespace {

// Grown once, then reused: a worker's passes all come through its own thread.
Flat& scratch(int which, std::size_t size) {
  thread_local Flat buffers[3];
  if (buffers[which].size() < size) buffers[which].resize(size);
  return buffers[which];
}

// out += δᵀ·a over `rows` rows.
void add_outer(std::size_t rows, const float* deltas, std::size_t width, const float* inputs, std::size_t in,
               float keep, float* to) {
  multiply(Form::transposed, Form::plain, width, in, rows, deltas, inputs, to, 1.0f, keep);
}

// gram += scale·xᵀx over `rows` rows, the lower triangle (and what of the upper one is in blocks on the diagonal).
void add_gram(std::size_t rows, const float* x, std::size_t width, float scale, std::span<float> gram) {
  assert(gram.size() == width * width);
  constexpr std::size_t kBlock = 96;  // rows of the gram at a time; smaller ones waste less above the diagonal
  for (std::size_t begin = 0; begin < width; begin += kBlock) {
    const std::size_t end = std::min(width, begin + kBlock);
    multiply(end - begin, end, rows, {x + begin, width, Form::transposed}, {x, width}, gram.data() + begin * width,
             width, scale, 1.0f);
  }
}

void squares_of(std::span<const float> values, float scale, Flat& squares) {
  for (std::size_t i = 0; i < values.size(); ++i) squares[i] = (scale * values[i]) * (scale * values[i]);
}

// One row an example: (δ aᵀ)∘(δ aᵀ) = (δ∘δ)(a∘a)ᵀ.
void add_dense_squares(const LayerPass& pass, float scale, std::span<float> weight, float* bias) {
  const std::size_t in = pass.layer.in(), out = pass.layer.out();
  Flat& a = scratch(0, pass.inputs.size());
  Flat& d = scratch(1, pass.deltas.size());
  squares_of(pass.inputs, 1.0f, a);
  squares_of(pass.deltas, scale, d);
  add_outer(pass.rows, d.data(), out, a.data(), in, 1.0f, weight.data());
  if (bias == nullptr) return;
  for (std::size_t r = 0; r < pass.rows; ++r) {
    for (std::size_t j = 0; j < out; ++j) bias[j] += d[r * out + j];
  }
}

// Several rows an example (a convolution's patches): their outer products are summed before the square.
void add_patch_squares(const LayerPass& pass, float scale, std::span<float> weight, float* bias) {
  const std::size_t in = pass.layer.in(), out = pass.layer.out();
  const std::size_t rows = pass.rows_per_example;
  Flat& gradient = scratch(0, weight.size());
  Flat& sums = scratch(1, out);
  for (std::size_t r = 0; r < pass.rows; r += rows) {
    const float* deltas = pass.deltas.data() + r * out;
    add_outer(rows, deltas, out, pass.inputs.data() + r * in, in, 0.0f, gradient.data());
    for (std::size_t i = 0; i < weight.size(); ++i) weight[i] += (scale * gradient[i]) * (scale * gradient[i]);
    if (bias == nullptr) continue;
    std::fill_n(sums.begin(), out, 0.0f);
    for (std::size_t p = 0; p < rows; ++p) {
      for (std::size_t j = 0; j < out; ++j) sums[j] += scale * deltas[p * out + j];
    }
    for (std::size_t j = 0; j < out; ++j) bias[j] += sums[j] * sums[j];
  }
}

}  // namespace

void add_squared_gradients(const LayerPass& pass, std::span<float> squares) {
  assert(!pass.deltas.empty());
  // The deltas are of the mean loss; an example's own gradient is larger by the number of examples.
  const auto scale = static_cast<float>(pass.rows / pass.rows_per_example);
  const auto weight = pass.layer.weight.of(squares);
  float* bias = pass.layer.bias ? pass.layer.bias->of(squares).data() : nullptr;
  if (pass.rows_per_example == 1) {
    add_dense_squares(pass, scale, weight, bias);
  } else {
    add_patch_squares(pass, scale, weight, bias);
  }
}

// Neighbouring patches of an image overlap and say nearly the same; these many of an example are enough for their
// second moments, where all of them would cost more than the training.
constexpr std::size_t kPatchesPerExample = 16;

namespace {

struct InputRows {
  const float* values;  // rows × width
  std::size_t rows, width;
};

// A layer's inputs with the 1 of the bias behind each.
InputRows extended_inputs(const LayerPass& pass) {
  const std::size_t in = pass.layer.in(), width = in + (pass.layer.bias ? 1 : 0);
  const std::size_t all = pass.rows_per_example, used = std::min(all, kPatchesPerExample);
  const std::size_t examples = pass.rows / all;
  Flat& extended = scratch(2, examples * used * width);
  float* to = extended.data();
  for (std::size_t example = 0; example < examples; ++example) {
    for (std::size_t p = 0; p < used; ++p) {
      // Spread over the image, and shifted from example to example so that every place has its turn.
      const std::size_t row = example * all + (example + p * all / used) % all;
      to = std::copy_n(pass.inputs.data() + row * in, in, to);
      if (pass.layer.bias) *to++ = 1.0f;
    }
  }
  return {extended.data(), examples * used, width};
}

}  // namespace

std::size_t add_input_gram(const LayerPass& pass, std::span<float> gram) {
  const InputRows x = extended_inputs(pass);
  add_gram(x.rows, x.values, x.width, 1.0f, gram);
  return x.rows;
}

std::size_t add_input_products(const LayerPass& pass, std::span<const float> directions, std::size_t count,
                               std::span<float> products, double& trace) {
  const InputRows x = extended_inputs(pass);
  assert(directions.size() == x.width * count && products.size() == directions.size());
  Flat& along = scratch(0, x.rows * count);
  multiply(Form::plain, Form::plain, x.rows, count, x.width, x.values, directions.data(), along.data(), 1.0f, 0.0f);
  multiply(Form::transposed, Form::plain, x.width, count, x.rows, x.values, along.data(), products.data(), 1.0f, 1.0f);
  for (const float value : std::span(x.values, x.rows * x.width)) {
    trace += static_cast<double>(value) * static_cast<double>(value);
  }
  return x.rows;
}

void add_output_gram(const LayerPass& pass, std::span<float> gram, std::span<const float> weights) {
  assert(!pass.deltas.empty());
  const auto examples = static_cast<float>(pass.rows / pass.rows_per_example);  // as in add_squared_gradients
  const std::size_t out = pass.layer.out();
  const float* deltas = pass.deltas.data();
  if (!weights.empty()) {
    Flat& weighted = scratch(2, pass.deltas.size());
    for (std::size_t r = 0; r < pass.rows; ++r) {
      const float root = std::sqrt(weights[r / pass.rows_per_example]);
      for (std::size_t j = 0; j < out; ++j) weighted[r * out + j] = root * pass.deltas[r * out + j];
    }
    deltas = weighted.data();
  }
  add_gram(pass.rows, deltas, out, examples * examples, gram);
}

namespace {

// Sums over each example's rows, times `scale`.
void sum_positions(std::span<const float> rows, std::size_t examples, std::size_t positions, float scale, Flat& sums) {
  const std::size_t width = rows.size() / (examples * positions);
  sums.assign(examples * width, 0.0f);
  for (std::size_t r = 0; r < examples * positions; ++r) {
    float* to = sums.data() + r / positions * width;
    for (std::size_t j = 0; j < width; ++j) to[j] += scale * rows[r * width + j];
  }
}

}  // namespace

LayerPass reduce_positions(const LayerPass& pass, Flat& inputs, Flat& deltas) {
  const std::size_t positions = pass.rows_per_example, examples = pass.rows / positions;
  sum_positions(pass.inputs, examples, positions, 1.0f / static_cast<float>(positions), inputs);
  deltas.clear();
  if (!pass.deltas.empty()) sum_positions(pass.deltas, examples, positions, 1.0f, deltas);
  return {.index = pass.index,
          .layer = pass.layer,
          .rows = examples,
          .rows_per_example = 1,
          .inputs = inputs,
          .deltas = deltas};
}

}  // namespace parley
