#include "parley/model/torch/blocks.h"
#include "parley/model/torch/networks.h"

namespace parley {
namespace {

torch::nn::Conv2dOptions conv1x1(std::int64_t in, std::int64_t out) {
  return torch::nn::Conv2dOptions(in, out, 1);
}

// Widen, look at each channel by itself, narrow; added to the inputs where the size stays.
class InvertedResidualImpl final : public torch::nn::Module {
 public:
  InvertedResidualImpl(std::int64_t in, std::int64_t out, std::int64_t expansion, std::int64_t stride, NormKind norm)
      : residual_(stride == 1) {
    const std::int64_t wide = expansion * in;
    const auto by_channel = torch::nn::Conv2dOptions(wide, wide, 3).stride(stride).padding(1).groups(wide);
    widen_ = register_module("widen", ConvNorm(conv1x1(in, wide), norm));
    depthwise_ = register_module("depthwise", ConvNorm(by_channel, norm));
    narrow_ = register_module("narrow", ConvNorm(conv1x1(wide, out), norm));
    if (residual_ && in != out) shortcut_ = register_module("shortcut", ConvNorm(conv1x1(in, out), norm));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = narrow_(torch::relu(depthwise_(torch::relu(widen_(x)))));
    if (!residual_) return y;
    return y + (shortcut_ ? shortcut_(x) : x);
  }

 private:
  bool residual_;
  ConvNorm widen_{nullptr}, depthwise_{nullptr}, narrow_{nullptr}, shortcut_{nullptr};
};
TORCH_MODULE(InvertedResidual);

struct Stage {
  std::int64_t expansion, out;
  int blocks;
  std::int64_t stride;  // of the first block
};
// Table 2 of Sandler et al. 2018, with a stride of 1 for the second stage (and for the stem): the images are 32 × 32.
constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 1},  {6, 32, 3, 2}, {6, 64, 4, 2},
                             {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

// As in the code that FeDEC points to: relu instead of relu6, and 1 × 1 convolutions in shortcuts that change the
// number of channels.
class MobileNetV2 final : public Network {
 public:
  MobileNetV2(const Task& task, NormKind norm) {
    std::int64_t channels = 32;
    const auto stem = torch::nn::Conv2dOptions(task.input_shape[0], channels, 3).padding(1);
    stem_ = register_module("stem", ConvNorm(stem, norm));
    for (const auto& stage : kStages) {
      for (int i = 0; i < stage.blocks; ++i) {
        blocks_->push_back(InvertedResidual(channels, stage.out, stage.expansion, i == 0 ? stage.stride : 1, norm));
        channels = stage.out;
      }
    }
    register_module("blocks", blocks_);
    constexpr std::int64_t kFeatures = 1280;
    head_ = register_module("head", ConvNorm(conv1x1(channels, kFeatures), norm));
    fc_ = register_module("fc", Dense(kFeatures, static_cast<std::int64_t>(task.outputs)));
  }

  torch::Tensor forward(const torch::Tensor& inputs) override {
    const torch::Tensor x = blocks_->forward(torch::relu(stem_(inputs)));
    return fc_(mean_over_positions(torch::relu(head_(x))));
  }

 private:
  ConvNorm stem_{nullptr}, head_{nullptr};
  torch::nn::Sequential blocks_;
  Dense fc_{nullptr};
};

}  // namespace

std::unique_ptr<Model> make_mobilenetv2(const std::string& name, const Options& options, const Task& task) {
  return make_image_network<MobileNetV2>(name, options, task, 1);
}

}  // namespace parley
