#include <utility>

#include "parley/model/torch/blocks.h"
#include "parley/model/torch/networks.h"

namespace parley {
namespace {

class McMahanCnn final : public Network {
 public:
  explicit McMahanCnn(const Task& task) {
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

// A convolution with norm and relu, perhaps pooled.
struct ConvRow {
  std::int64_t out, kernel, padding;
  bool pool;  // 2 × 2, stride 2

  std::int64_t size_behind(std::int64_t size) const { return (size + 2 * padding - kernel + 1) / (pool ? 2 : 1); }
};

// Rows of convolutions, then dense layers with relu between them.
struct CnnPlan {
  std::vector<ConvRow> convolutions;
  std::vector<std::int64_t> hidden;
};

class PlainCnn final : public Network {
 public:
  PlainCnn(const CnnPlan& plan, const Task& task, NormKind norm) : plan_(plan) {
    std::int64_t channels = task.input_shape[0], height = task.input_shape[1], width = task.input_shape[2];
    for (const auto& row : plan_.convolutions) {
      const auto options = torch::nn::Conv2dOptions(channels, row.out, row.kernel).padding(row.padding);
      convolutions_.push_back(
          register_module(fmt::format("conv{}", convolutions_.size() + 1), ConvNorm(options, norm)));
      channels = row.out;
      height = row.size_behind(height);
      width = row.size_behind(width);
    }
    std::int64_t in = channels * height * width;
    std::vector<std::int64_t> widths = plan_.hidden;
    widths.push_back(static_cast<std::int64_t>(task.outputs));
    for (const std::int64_t out : widths) {
      dense_.push_back(register_module(fmt::format("fc{}", dense_.size() + 1), Dense(std::exchange(in, out), out)));
    }
  }

  torch::Tensor forward(const torch::Tensor& inputs) override {
    torch::Tensor x = inputs;
    for (std::size_t i = 0; i < convolutions_.size(); ++i) {
      x = torch::relu(convolutions_[i](x));
      if (plan_.convolutions[i].pool) x = torch::max_pool2d(x, 2);
    }
    x = dense_.front()(x.flatten(1));
    for (std::size_t i = 1; i < dense_.size(); ++i) x = dense_[i](torch::relu(x));
    return x;
  }

 private:
  CnnPlan plan_;
  std::vector<ConvNorm> convolutions_;
  std::vector<Dense> dense_;
};

std::unique_ptr<Model> make_plain_cnn(const std::string& name, const CnnPlan& plan, std::int64_t least_size,
                                      const Options& options, const Task& task) {
  const Task image = as_images(name, task, least_size);
  return make_network_model(name, std::make_shared<PlainCnn>(plan, image, norm_of(options)), image);
}

}  // namespace

std::unique_ptr<Model> make_mcmahan_cnn(const std::string& name, const Options& /*options*/, const Task& task) {
  const Task image = as_images(name, task, 4);
  return make_network_model(name, std::make_shared<McMahanCnn>(image), image);
}

std::unique_ptr<Model> make_lenet(const std::string& name, const Options& options, const Task& task) {
  const CnnPlan plan{.convolutions = {{16, 5, 2, true}, {16, 5, 2, false}, {32, 5, 2, true}, {32, 5, 2, false}},
                     .hidden = {512, 128}};
  return make_plain_cnn(name, plan, 4, options, task);
}

// Table 3 gives no padding, and a stride of 1 for the pooling, by which 32 × 32 images would reach the dense layer as
// 64 × 16 × 16 numbers instead of its 1024 = 64 × 4 × 4. Pooling by strides of 2 and a padding of 1 at the 3 × 3
// convolution is the reading that keeps every shape of the table: 32, 28, 24 | 12, 12, 8 | 4.
std::unique_ptr<Model> make_cnn4(const std::string& name, const Options& options, const Task& task) {
  const CnnPlan plan{.convolutions = {{32, 5, 0, false}, {32, 5, 0, true}, {64, 3, 1, false}, {64, 5, 0, true}},
                     .hidden = {128}};
  return make_plain_cnn(name, plan, 20, options, task);
}

}  // namespace parley
