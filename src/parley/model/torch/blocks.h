// What the image networks are built of.
#pragma once

#include <torch/torch.h>

#include "parley/model/cnn.h"
#include "parley/model/torch/network.h"
#include "parley/model/torch/shown_layers.h"

namespace parley {

// Batch norm with PyTorch's names, momentum (0.1) and ε (1e-5), the same without running statistics, or group norm over
// eight channels at a time. A training batch that leaves batch norm a single value for each channel is a
// RefusedUpdate: that has no variance. (LibTorch's own BatchNorm2d cannot be derived from: a part of it is not
// exported.)
class NormImpl final : public torch::nn::Module {
 public:
  NormImpl(NormKind kind, std::int64_t channels);
  torch::Tensor forward(const torch::Tensor& inputs);

 private:
  torch::Tensor over_batch(const torch::Tensor& inputs);

  NormKind kind_;
  torch::Tensor weight_, bias_;
  torch::Tensor running_mean_, running_var_, batches_;  // of NormKind::batch alone
};
TORCH_MODULE(Norm);

// norm(conv(x)); the convolution without a bias.
class ConvNormImpl final : public torch::nn::Module {
 public:
  ConvNormImpl(const torch::nn::Conv2dOptions& options, NormKind kind);
  torch::Tensor forward(const torch::Tensor& inputs);

 private:
  Conv conv_;
  Norm norm_;
};
TORCH_MODULE(ConvNorm);

// conv(relu(norm(x))): the same in pre-activation order.
class NormConvImpl final : public torch::nn::Module {
 public:
  NormConvImpl(const torch::nn::Conv2dOptions& options, NormKind kind);
  torch::Tensor forward(const torch::Tensor& inputs);

 private:
  Norm norm_;
  Conv conv_;
};
TORCH_MODULE(NormConv);

// [batch, channels, height, width] -> [batch, channels]
inline torch::Tensor mean_over_positions(const torch::Tensor& x) {
  return x.mean({2, 3});
}

// A network that is made of images and a norm alone.
template <class Net>
std::unique_ptr<Model> make_image_network(const std::string& name, const Options& options, const Task& task,
                                          std::int64_t least_size) {
  const Task image = as_images(name, task, least_size);
  return make_network_model(name, std::make_shared<Net>(image, norm_of(options)), image);
}

}  // namespace parley
