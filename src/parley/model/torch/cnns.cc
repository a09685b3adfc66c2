#include <utility>

#include "parley/model/torch/blocks.h"
#include "parley/model/torch/networks.h"
#include "parley/model/torch/pair.h"

namespace parley {
namespace {

class McMahanCnn final : public PairedNetwork {
 public:
  explicit McMahanCnn(const Task& task, McMahanCnn* shared = nullptr) : task_(task) {
    constexpr std::int64_t kFirst = 32, kSecond = 64, kDense = 512;
    const std::int64_t pooled = (task.input_shape[1] / 4) * (task.input_shape[2] / 4);
    conv1_ = register_module("conv1", same_size(task.input_shape[0], kFirst));
    conv2_ = register_module("conv2", same_size(kFirst, kSecond));
    fc1_ = register_module("fc1", Dense(kSecond * pooled, kDense));
    const auto outputs = static_cast<std::int64_t>(task.outputs);
    fc2_ = register_module("fc2", Dense(kDense, outputs));
    if (shared != nullptr) listen_to(*shared, {kFirst, kSecond, kDense, outputs});
  }

  // relu after pooling is the same function as before it, on a quarter of the numbers.
  torch::Tensor forward(const torch::Tensor& inputs) override {
    torch::Tensor x = relu(0, torch::max_pool2d(conv1_(inputs), 2));
    x = relu(1, torch::max_pool2d(conv2_(x), 2));
    x = relu(2, fc1_(x.flatten(1)));
    return outputs(3, fc2_(x));
  }

  std::shared_ptr<Network> with_private() const override { return make_beside<McMahanCnn>(task_); }

 private:
  static Conv same_size(std::int64_t in, std::int64_t out) {
    return Conv(torch::nn::Conv2dOptions(in, out, /*kernel=*/5).padding(2));
  }

  Task task_;
  Conv conv1_{nullptr}, conv2_{nullptr};
  Dense fc1_{nullptr}, fc2_{nullptr};
};

class PlainCnn final : public PairedNetwork {
 public:
  PlainCnn(const CnnPlan& plan, const Task& task, PlainCnn* shared = nullptr) : plan_(plan), task_(task) {
    std::vector<std::int64_t> told;
    std::int64_t channels = task.input_shape[0], height = task.input_shape[1], width = task.input_shape[2];
    for (const auto& row : plan_.convolutions) {
      const auto options = torch::nn::Conv2dOptions(channels, row.out, row.kernel).padding(row.padding);
      convolutions_.push_back(
          register_module(fmt::format("conv{}", convolutions_.size() + 1), ConvNorm(options, *plan.norm)));
      told.push_back(channels = row.out);
      height = row.size_behind(height);
      width = row.size_behind(width);
    }
    std::int64_t in = channels * height * width;
    std::vector<std::int64_t> widths = plan_.hidden;
    widths.push_back(static_cast<std::int64_t>(task.outputs));
    for (const std::int64_t out : widths) {
      dense_.push_back(register_module(fmt::format("fc{}", dense_.size() + 1), Dense(std::exchange(in, out), out)));
    }
    told.insert(told.end(), widths.begin(), widths.end());
    if (shared != nullptr) listen_to(*shared, told);
  }

  torch::Tensor forward(const torch::Tensor& inputs) override {
    torch::Tensor x = inputs;
    std::size_t layer = 0;
    for (; layer < convolutions_.size(); ++layer) {
      x = convolutions_[layer](x);
      if (plan_.convolutions[layer].pool) x = torch::max_pool2d(x, 2);
      x = relu(layer, x);
    }
    x = x.flatten(1);
    for (std::size_t i = 0; i + 1 < dense_.size(); ++i, ++layer) x = relu(layer, dense_[i](x));
    return outputs(layer, dense_.back()(x));
  }

  std::shared_ptr<Network> with_private() const override { return make_beside<PlainCnn>(plan_, task_); }

 private:
  CnnPlan plan_;
  Task task_;
  std::vector<ConvNorm> convolutions_;
  std::vector<Dense> dense_;
};

std::unique_ptr<Model> make_plain_cnn(const std::string& name, const CnnPlan& plan, const Task& task) {
  const Task image = as_images(name, task, plan.least_size);
  return make_network_model(name, std::make_shared<PlainCnn>(plan, image), image);
}

}  // namespace

std::unique_ptr<Model> make_mcmahan_cnn(const std::string& name, const Options& /*options*/, const Task& task) {
  const Task image = as_images(name, task, mcmahan_cnn().least_size);
  return make_network_model(name, std::make_shared<McMahanCnn>(image), image);
}

std::unique_ptr<Model> make_lenet(const std::string& name, const Options& options, const Task& task) {
  return make_plain_cnn(name, lenet(norm_of(options)), task);
}

std::unique_ptr<Model> make_cnn4(const std::string& name, const Options& options, const Task& task) {
  return make_plain_cnn(name, cnn4(norm_of(options)), task);
}

}  // namespace parley
