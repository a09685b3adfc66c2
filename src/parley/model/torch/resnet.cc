#include "parley/model/torch/blocks.h"
#include "parley/model/torch/networks.h"

namespace parley {
namespace {

torch::nn::Conv2dOptions conv3x3(std::int64_t in, std::int64_t out, std::int64_t stride) {
  return torch::nn::Conv2dOptions(in, out, 3).stride(stride).padding(1);
}

// relu(x + conv(relu(conv(x)))) of He et al. 2016. Table 4 lists no convolutions for the shortcuts, which is what makes
// the network slim: where the size changes, a shortcut takes every second position, and has zeros in the new channels
// (He et al.'s option A).
class ResidualBlockImpl final : public torch::nn::Module {
 public:
  ResidualBlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride, NormKind norm)
      : stride_(stride),
        new_channels_(out - in),
        conv1_(register_module("conv1", ConvNorm(conv3x3(in, out, stride), norm))),
        conv2_(register_module("conv2", ConvNorm(conv3x3(out, out, 1), norm))) {}

  torch::Tensor forward(const torch::Tensor& x) { return torch::relu(shortcut(x) + conv2_(torch::relu(conv1_(x)))); }

 private:
  torch::Tensor shortcut(const torch::Tensor& x) const {
    if (stride_ == 1) return x;
    const auto thinned = x.slice(2, 0, c10::nullopt, stride_).slice(3, 0, c10::nullopt, stride_);
    return torch::constant_pad_nd(thinned, {0, 0, 0, 0, 0, new_channels_});
  }

  std::int64_t stride_, new_channels_;
  ConvNorm conv1_, conv2_;
};
TORCH_MODULE(ResidualBlock);

class ResNet18 final : public Network {
 public:
  ResNet18(const Task& task, NormKind norm) {
    std::int64_t width = 64;
    stem_ = register_module("stem", ConvNorm(conv3x3(task.input_shape[0], width, 1), norm));
    for (const std::int64_t out : {64, 128, 256, 512}) {
      blocks_->push_back(ResidualBlock(width, out, out == width ? 1 : 2, norm));
      blocks_->push_back(ResidualBlock(out, out, 1, norm));
      width = out;
    }
    register_module("blocks", blocks_);
    fc_ = register_module("fc", Dense(width, static_cast<std::int64_t>(task.outputs)));
  }

  torch::Tensor forward(const torch::Tensor& inputs) override {
    return fc_(mean_over_positions(blocks_->forward(torch::relu(stem_(inputs)))));
  }

 private:
  ConvNorm stem_{nullptr};
  torch::nn::Sequential blocks_;
  Dense fc_{nullptr};
};

}  // namespace

std::unique_ptr<Model> make_resnet18(const std::string& name, const Options& options, const Task& task) {
  return make_image_network<ResNet18>(name, options, task, 1);
}

}  // namespace parley
