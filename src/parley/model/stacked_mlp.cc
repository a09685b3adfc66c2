#include "parley/model/stacked_mlp.h"

#include <algorithm>
#include <cassert>

#include "parley/model/dense.h"

namespace parley {
namespace {

constexpr std::size_t kWideEnough = 512;

}  // namespace

std::size_t networks_to_stack(const MlpPlan& plan) {
  return std::max<std::size_t>(1, kWideEnough / plan.widths[1]);
}

StackedMlp::StackedMlp(const MlpPlan& plan, std::size_t most)
    : plan_(plan),
      layout_(plan.layout()),
      weights_(most * layout_.size()),
      first_(most * layout_.entries()[0].size),
      first_biases_(most * layout_.entries()[1].size) {}

std::span<const float> StackedMlp::part(std::size_t network, std::size_t entry) const {
  return layout_.entries()[entry].of(std::span(weights_).subspan(network * layout_.size(), layout_.size()));
}

void StackedMlp::load(std::size_t networks, const Write& write) {
  assert(networks * layout_.size() <= weights_.size());
  networks_ = networks;
  for (std::size_t k = 0; k < networks; ++k) {
    write(k, std::span(weights_).subspan(k * layout_.size(), layout_.size()));
    const auto weight = part(k, 0), bias = part(k, 1);
    std::ranges::copy(weight, first_.begin() + static_cast<std::ptrdiff_t>(k * weight.size()));
    std::ranges::copy(bias, first_biases_.begin() + static_cast<std::ptrdiff_t>(k * bias.size()));
  }
}

void StackedMlp::predict(const Batch& batch, std::span<float> outputs) {
  const std::size_t rows = batch.size, in = plan_.widths[0], wide = networks_ * plan_.widths[1];
  assert(outputs.size() == networks_ * rows * plan_.widths.back());
  wide_.resize(rows * wide);
  multiply(Form::plain, Form::transposed, rows, wide, in, batch.inputs.data(), first_.data(), wide_.data());
  const auto biases = std::span<const float>(first_biases_).first(wide);
  if (plan_.layers() == 1) {
    add_bias(rows, biases, wide_.data());
  } else {
    with_activation(plan_.activation, [&](auto kind) { add_bias_and_activate<kind()>(rows, biases, wide_.data()); });
  }
  const std::size_t each = rows * plan_.widths.back();
  for (std::size_t k = 0; k < networks_; ++k) forward_one(k, rows, outputs.data() + k * each);
}

void StackedMlp::forward_one(std::size_t network, std::size_t rows, float* outputs) {
  const std::size_t width = plan_.widths[1], wide = networks_ * width;
  Operand input{wide_.data() + network * width, wide};
  if (plan_.layers() == 1) {
    for (std::size_t i = 0; i < rows; ++i) std::copy_n(input.data + i * wide, width, outputs + i * width);
    return;
  }
  for (std::size_t l = 1; l < plan_.layers(); ++l) {
    const std::size_t in = plan_.widths[l], out = plan_.widths[l + 1];
    const bool last = l + 1 == plan_.layers();
    const auto bias = part(network, 2 * l + 1);
    next_.resize(rows * out);
    float* z = last ? outputs : next_.data();
    multiply(rows, out, in, input, {part(network, 2 * l).data(), in, Form::transposed}, z, out);
    if (last) return add_bias(rows, bias, z);
    with_activation(plan_.activation, [&](auto kind) { add_bias_and_activate<kind()>(rows, bias, z); });
    std::swap(here_, next_);
    input = {here_.data(), out};
  }
}

}  // namespace parley
