#include "parley/model/torch/blocks.h"

namespace parley {
namespace {

Conv without_bias(torch::nn::Conv2dOptions options) {
  return Conv(options.bias(false));
}

}  // namespace

Task as_images(const std::string& name, const Task& task, std::int64_t least_size) {
  Task image = task;
  if (image.input_shape.size() == 2) image.input_shape.insert(image.input_shape.begin(), 1);
  if (image.input_shape.size() != 3 || image.input_shape[1] < least_size || image.input_shape[2] < least_size) {
    fail(
        "model.name: '{}' needs images of shape [channels, height, width], at least {} x {}; the data has {}: choose "
        "'mlp' or image data",
        name, least_size, least_size, describe_shape(task.input_shape));
  }
  return image;
}

NormKind norm_of(const Options& options) {
  return options.text("norm") == "batch" ? NormKind::batch : NormKind::group;
}

NormImpl::NormImpl(NormKind kind, std::int64_t channels)
    : weight_(register_parameter("weight", torch::ones(channels))),
      bias_(register_parameter("bias", torch::zeros(channels))) {
  if (kind == NormKind::group) return;
  running_mean_ = register_buffer("running_mean", torch::zeros(channels));
  running_var_ = register_buffer("running_var", torch::ones(channels));
  batches_ = register_buffer("num_batches_tracked", torch::zeros({}, torch::kLong));
}

torch::Tensor NormImpl::forward(const torch::Tensor& inputs) {
  constexpr std::int64_t kChannelsPerGroup = 8;  // divides the width of every network here
  if (running_mean_.defined()) return over_batch(inputs);
  return torch::group_norm(inputs, inputs.size(1) / kChannelsPerGroup, weight_, bias_);
}

torch::Tensor NormImpl::over_batch(const torch::Tensor& inputs) {
  if (is_training()) {
    if (inputs.numel() == inputs.size(1)) {
      fail<RefusedUpdate>(
          "model.norm = \"batch\": a batch of one leaves a single value for each channel, which has no variance: "
          "choose "
          "client.batch so that no client is left with a batch of one, or model.norm = \"group\"");
    }
    batches_ += 1;
  }
  return torch::batch_norm(inputs, weight_, bias_, running_mean_, running_var_, is_training(), /*momentum=*/0.1,
                           /*eps=*/1e-5, /*cudnn_enabled=*/false);
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
