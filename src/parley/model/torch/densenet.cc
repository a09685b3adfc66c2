#include "parley/model/torch/blocks.h"
#include "parley/model/torch/networks.h"

namespace parley {
namespace {

constexpr std::int64_t kGrowth = 32;

// Adds kGrowth channels to those it was given, by a 1 × 1 bottleneck of four times as many.
class DenseBlockImpl final : public torch::nn::Module {
 public:
  DenseBlockImpl(std::int64_t in, NormKind norm)
      : narrow_(register_module("narrow", NormConv(torch::nn::Conv2dOptions(in, 4 * kGrowth, 1), norm))),
        grow_(register_module("grow", NormConv(torch::nn::Conv2dOptions(4 * kGrowth, kGrowth, 3).padding(1), norm))) {}

  torch::Tensor forward(const torch::Tensor& x) { return torch::cat({grow_(narrow_(x)), x}, 1); }

 private:
  NormConv narrow_, grow_;
};
TORCH_MODULE(DenseBlock);

// Halves the channels and the size.
class TransitionImpl final : public torch::nn::Module {
 public:
  TransitionImpl(std::int64_t in, NormKind norm)
      : narrow_(register_module("narrow", NormConv(torch::nn::Conv2dOptions(in, in / 2, 1), norm))) {}

  torch::Tensor forward(const torch::Tensor& x) { return torch::avg_pool2d(narrow_(x), 2); }

 private:
  NormConv narrow_;
};
TORCH_MODULE(Transition);

// DenseNet-121 for small images: the first convolution is 3 × 3 with a stride of 1, and no pooling follows it.
class DenseNet121 final : public Network {
 public:
  DenseNet121(const Task& task, NormKind norm) {
    std::int64_t channels = 2 * kGrowth;
    body_->push_back(Conv(torch::nn::Conv2dOptions(task.input_shape[0], channels, 3).padding(1).bias(false)));
    for (const int blocks : {6, 12, 24, 16}) {
      if (body_->size() > 1) {
        body_->push_back(Transition(channels, norm));
        channels /= 2;
      }
      for (int i = 0; i < blocks; ++i, channels += kGrowth) body_->push_back(DenseBlock(channels, norm));
    }
    body_->push_back(Norm(norm, channels));
    register_module("body", body_);
    fc_ = register_module("fc", Dense(channels, static_cast<std::int64_t>(task.outputs)));
  }

  torch::Tensor forward(const torch::Tensor& inputs) override {
    return fc_(mean_over_positions(torch::relu(body_->forward(inputs))));
  }

 private:
  torch::nn::Sequential body_;
  Dense fc_{nullptr};
};

}  // namespace

std::unique_ptr<Model> make_densenet121(const std::string& name, const Options& options, const Task& task) {
  return make_image_network<DenseNet121>(name, options, task, 8);
}

}  // namespace parley
