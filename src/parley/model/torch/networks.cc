#include "parley/model/torch/networks.h"

#include "parley/model/torch/network.h"
#include "parley/model/torch/shown_layers.h"

namespace parley {
namespace {

Task flat(const Task& task, std::size_t features) {
  return {.input_shape = {static_cast<std::int64_t>(features)}, .outputs = task.outputs, .loss = task.loss};
}

torch::Tensor activate(Activation activation, const torch::Tensor& z) {
  switch (activation) {
    case Activation::relu: return torch::relu(z);
    case Activation::sigmoid: return torch::sigmoid(z);
    case Activation::tanh: return torch::tanh(z);
  }
  return z;
}

// Dropout draws from our own stream, as the native backend does: LibTorch's generator is shared by all threads.
class MlpNetwork final : public Network {
 public:
  explicit MlpNetwork(const MlpPlan& plan) : plan_(plan) {
    for (std::size_t l = 0; l < plan_.layers(); ++l) {
      const auto in = static_cast<std::int64_t>(plan_.widths[l]), out = static_cast<std::int64_t>(plan_.widths[l + 1]);
      layers_.push_back(register_module(fmt::format("fc{}", l + 1), Dense(in, out)));
    }
  }

  void reseed(const Stream& noise) override { noise_ = noise; }

  torch::Tensor forward(const torch::Tensor& inputs) override {
    torch::Tensor x = layers_.front()(inputs);
    for (std::size_t l = 1; l < plan_.layers(); ++l) {
      x = activate(plan_.activation, x);
      if (is_training() && plan_.dropout > 0.0) x = x * mask(x.sizes());
      x = layers_[l](x);
    }
    return x;
  }

 private:
  torch::Tensor mask(torch::IntArrayRef shape) {
    const torch::Tensor result = torch::empty(shape);
    draw_dropout(noise_, plan_.dropout, {result.data_ptr<float>(), static_cast<std::size_t>(result.numel())});
    return result;
  }

  MlpPlan plan_;
  std::vector<Dense> layers_;
  Stream noise_{0, "dropout"};
};

class CnnNetwork final : public Network {
 public:
  explicit CnnNetwork(const Task& task) {
    constexpr std::int64_t kFirst = 32, kSecond = 64, kDense = 512;
    const std::int64_t pooled = (task.input_shape[1] / 4) * (task.input_shape[2] / 4);
    conv1_ = register_module("conv1", same_size(task.input_shape[0], kFirst));
    conv2_ = register_module("conv2", same_size(kFirst, kSecond));
    fc1_ = register_module("fc1", Dense(kSecond * pooled, kDense));
    fc2_ = register_module("fc2", Dense(kDense, static_cast<std::int64_t>(task.outputs)));
  }

  // relu after pooling is the same function as before it, on a quarter of the numbers.
  torch::Tensor forward(const torch::Tensor& inputs) override {
    torch::Tensor x = torch::relu(torch::max_pool2d(conv1_(inputs), 2));
    x = torch::relu(torch::max_pool2d(conv2_(x), 2));
    return fc2_(torch::relu(fc1_(x.flatten(1))));
  }

 private:
  static Conv same_size(std::int64_t in, std::int64_t out) {
    return Conv(torch::nn::Conv2dOptions(in, out, /*kernel=*/5).padding(2));
  }

  Conv conv1_{nullptr}, conv2_{nullptr};
  Dense fc1_{nullptr}, fc2_{nullptr};
};

}  // namespace

std::unique_ptr<Model> make_torch_mlp(const Options& options, const Task& task) {
  const MlpPlan plan = plan_mlp(options, task);
  return make_network_model("mlp (torch)", std::make_shared<MlpNetwork>(plan), flat(task, plan.widths.front()));
}

std::unique_ptr<Model> make_torch_cnn(const std::string& name, const Task& task) {
  Task image = task;
  // Images without a channel extent have one channel.
  if (image.input_shape.size() == 2) image.input_shape.insert(image.input_shape.begin(), 1);
  if (image.input_shape.size() != 3 || image.input_shape[1] < 4 || image.input_shape[2] < 4) {
    fail(
        "model.name: '{}' needs images of shape [channels, height, width], at least 4 x 4; the "
        "data "
        "has {}: choose 'mlp' or image data",
        name, describe_shape(task.input_shape));
  }
  return make_network_model(name, std::make_shared<CnnNetwork>(image), image);
}

}  // namespace parley
