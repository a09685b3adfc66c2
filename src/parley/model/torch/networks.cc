#include "parley/model/torch/networks.h"

#include "parley/model/torch/torch_model.h"

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

class TorchMlp final : public TorchModel {
 public:
  TorchMlp(const MlpPlan& plan, const Task& task)
      : TorchModel(plan.layout(), flat(task, plan.widths.front())), plan_(plan), leaves_(leaves()) {}

  void reseed(const Stream& noise) override { noise_ = noise; }

 protected:
  std::string describe() const override { return "model mlp (torch)"; }

  torch::Tensor forward(const torch::Tensor& inputs, bool training) override {
    torch::Tensor x = inputs;
    for (std::size_t l = 0; l < plan_.layers(); ++l) {
      x = torch::linear(x, leaves_[2 * l], leaves_[2 * l + 1]);
      if (l + 1 == plan_.layers()) break;
      x = activate(plan_.activation, x);
      if (training && plan_.dropout > 0.0) x = x * mask(x.sizes());
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
  std::vector<torch::Tensor> leaves_;
  Stream noise_{0, "dropout"};
};

constexpr std::int64_t kKernel = 5, kFirst = 32, kSecond = 64, kDense = 512;

Layout cnn_layout(const Task& task) {
  const std::int64_t channels = task.input_shape[0];
  const std::int64_t pooled = (task.input_shape[1] / 4) * (task.input_shape[2] / 4);
  const auto outputs = static_cast<std::int64_t>(task.outputs);
  return Layout({{.name = "conv1.weight", .shape = {kFirst, channels, kKernel, kKernel}},
                 {.name = "conv1.bias", .shape = {kFirst}, .role = Role::bias},
                 {.name = "conv2.weight", .shape = {kSecond, kFirst, kKernel, kKernel}},
                 {.name = "conv2.bias", .shape = {kSecond}, .role = Role::bias},
                 {.name = "fc1.weight", .shape = {kDense, kSecond * pooled}},
                 {.name = "fc1.bias", .shape = {kDense}, .role = Role::bias},
                 {.name = "fc2.weight", .shape = {outputs, kDense}},
                 {.name = "fc2.bias", .shape = {outputs}, .role = Role::bias}});
}

class TorchCnn final : public TorchModel {
 public:
  TorchCnn(std::string name, const Task& task)
      : TorchModel(cnn_layout(task), task), name_(std::move(name)), leaves_(leaves()) {}

 protected:
  std::string describe() const override { return "model " + name_; }

  torch::Tensor forward(const torch::Tensor& inputs, bool /*training*/) override {
    torch::Tensor x = convolve(inputs, 0);
    x = convolve(x, 2).flatten(1);
    x = torch::relu(torch::linear(x, leaves_[4], leaves_[5]));
    return torch::linear(x, leaves_[6], leaves_[7]);
  }

 private:
  // relu after pooling is the same function as before it, on a quarter of the numbers.
  torch::Tensor convolve(const torch::Tensor& x, std::size_t weight) {
    const auto z = torch::conv2d(x, leaves_[weight], leaves_[weight + 1], /*stride=*/1,
                                 /*padding=*/kKernel / 2);
    return torch::relu(torch::max_pool2d(z, 2));
  }

  std::string name_;
  std::vector<torch::Tensor> leaves_;
};

}  // namespace

std::unique_ptr<Model> make_torch_mlp(const Options& options, const Task& task) {
  return std::make_unique<TorchMlp>(plan_mlp(options, task), task);
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
  return std::make_unique<TorchCnn>(name, image);
}

}  // namespace parley
