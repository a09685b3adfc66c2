#include "parley/model/torch/blocks.h"

namespace parley {
namespace {

Conv without_bias(torch::nn::Conv2dOptions options) {
  return Conv(options.bias(false));
}

}  // namespace

NormImpl::NormImpl(NormKind kind, std::int64_t channels)
    : kind_(kind),
      weight_(register_parameter("weight", torch::ones(channels))),
      bias_(register_parameter("bias", torch::zeros(channels))) {
  if (kind != NormKind::batch) return;
  running_mean_ = register_buffer("running_mean", torch::zeros(channels));
  running_var_ = register_buffer("running_var", torch::ones(channels));
  batches_ = register_buffer("num_batches_tracked", torch::zeros({}, torch::kLong));
}

torch::Tensor NormImpl::forward(const torch::Tensor& inputs) {
  if (kind_ == NormKind::group) {
    return torch::group_norm(inputs, inputs.size(1) / kChannelsPerGroup, weight_, bias_);
  }
  return over_batch(inputs);
}

torch::Tensor NormImpl::over_batch(const torch::Tensor& inputs) {
  if (is_training()) {
    if (inputs.numel() == inputs.size(1)) refuse_single_value();
    if (batches_.defined()) batches_ += 1;
  }
  const bool by_the_batch = is_training() || kind_ == NormKind::each_batch;
  return torch::batch_norm(inputs, weight_, bias_, running_mean_, running_var_, by_the_batch, kNormMomentum,
                           kNormEpsilon, /*cudnn_enabled=*/false);
}

ConvNormImpl::ConvNormImpl(const torch::nn::Conv2dOptions& options, NormKind kind)
    : conv_(register_module("conv", without_bias(options))),
      norm_(register_module("norm", Norm(kind, options.out_channels()))) {}

torch::Tensor ConvNormImpl::forward(const torch::Tensor& inputs) {
  return norm_(conv_(inputs));
}

NormConvImpl::NormConvImpl(const torch::nn::Conv2dOptions& options, NormKind kind)
    : norm_(register_module("norm", Norm(kind, options.in_channels()))),
      conv_(register_module("conv", without_bias(options))) {}

torch::Tensor NormConvImpl::forward(const torch::Tensor& inputs) {
  return conv_(torch::relu(norm_(inputs)));
}

}  // namespace parley
