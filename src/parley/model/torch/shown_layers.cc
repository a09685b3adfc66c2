#include "parley/model/torch/shown_layers.h"

#include "parley/gauss/normal.h"

namespace parley {
namespace {

std::span<const float> values_of(const torch::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

}  // namespace

void ShownLayer::attach(Display& display, std::size_t index) {
  display_ = &display;
  index_ = index;
}

void ShownLayer::show(const torch::Tensor& inputs, const torch::Tensor& outputs) {
  if (display_ == nullptr || !display_->observer) return;
  if (!outputs.requires_grad()) return present(inputs, {});
  outputs.register_hook([this, kept = inputs.detach()](const torch::Tensor& gradient) { present(kept, gradient); });
}

void ShownLayer::present(const torch::Tensor& inputs, const torch::Tensor& gradient) const {
  const torch::Tensor rows = input_rows(inputs, display_->scratch);
  const torch::Tensor deltas = gradient.defined() ? output_rows(gradient) : gradient;
  const auto count = static_cast<std::size_t>(rows.size(0));
  display_->observer({.index = index_,
                      .layer = display_->layers[index_],
                      .rows = count,
                      .rows_per_example = count / static_cast<std::size_t>(inputs.size(0)),
                      .inputs = values_of(rows),
                      .deltas = values_of(deltas)});
}

void GaussianLayer::spread(torch::Tensor weight, torch::Tensor bias, Stream& noise) {
  variances_ = Variances{std::move(weight), std::move(bias), &noise};
}

torch::Tensor GaussianLayer::draw(const torch::Tensor& mean, const torch::Tensor& variance) const {
  constexpr float kLeast = 1e-20f;  // inputs of zero have no variance, and √ no derivative there
  const torch::Tensor noise = torch::empty(mean.sizes());
  gauss::fill_normal(*variances_->noise, {noise.data_ptr<float>(), static_cast<std::size_t>(noise.numel())});
  return mean + (variance + kLeast).sqrt() * noise;
}

torch::Tensor DenseImpl::forward(const torch::Tensor& inputs) {
  torch::Tensor outputs = LinearImpl::forward(inputs);
  if (const auto& spread = variances()) {
    outputs = draw(outputs, torch::nn::functional::linear(inputs.square(), spread->weight, spread->bias));
  }
  show(inputs, outputs);
  return outputs;
}

torch::Tensor DenseImpl::input_rows(const torch::Tensor& inputs, torch::Tensor& /*scratch*/) const {
  return inputs.reshape({-1, options.in_features()}).contiguous();
}

torch::Tensor DenseImpl::output_rows(const torch::Tensor& outputs) const {
  return outputs.reshape({-1, options.out_features()}).contiguous();
}

torch::Tensor ConvImpl::forward(const torch::Tensor& inputs) {
  torch::Tensor outputs = Conv2dImpl::forward(inputs);
  if (const auto& spread = variances()) {
    const auto how = torch::nn::functional::Conv2dFuncOptions()
                         .bias(spread->bias)
                         .stride(options.stride())
                         .padding(options.padding())
                         .dilation(options.dilation())
                         .groups(options.groups());
    outputs = draw(outputs, torch::nn::functional::conv2d(inputs.square(), spread->weight, how));
  }
  show(inputs, outputs);
  return outputs;
}

// One strided copy; im2col would put the positions last, and turning it costs as much again.
torch::Tensor ConvImpl::input_rows(const torch::Tensor& inputs, torch::Tensor& scratch) const {
  const auto& kernel = *options.kernel_size();
  const auto& stride = *options.stride();
#if TORCH_VERSION_MAJOR < 2
  using c10::get;  // a variant of its own, before C++17
#else
  using std::get;
#endif
  const auto& padding = *get<torch::ExpandingArray<2>>(options.padding());
  const auto patches = torch::constant_pad_nd(inputs, {padding[1], padding[1], padding[0], padding[0]})
                           .unfold(2, kernel[0], stride[0])
                           .unfold(3, kernel[1], stride[1])
                           .permute({0, 2, 3, 1, 4, 5});  // [batch, height, width, channels, kernel, kernel]
  return scratch.resize_(patches.sizes()).copy_(patches).view({-1, weight[0].numel()});
}

torch::Tensor ConvImpl::output_rows(const torch::Tensor& outputs) const {
  return outputs.permute({0, 2, 3, 1}).reshape({-1, options.out_channels()}).contiguous();  // a view, of one image
}

}  // namespace parley
