#include "parley/base/errors.h"
#include "parley/model/torch/blocks.h"
#include "parley/model/torch/networks.h"

namespace parley {
namespace {

// Schirrmeister et al. 2017: along time, across the electrodes, then the logarithm of the power in windows of time.
class ShallowConvNet final : public Network {
 public:
  ShallowConvNet(const Task& task, const Options& options)
      : pool_(options.integer("pool")), stride_(options.integer("pool_stride")) {
    const std::int64_t filters = options.integer("filters"), kernel = options.integer("kernel");
    const std::int64_t electrodes = task.input_shape[1], samples = task.input_shape[2] - kernel + 1;
    const std::int64_t windows = (samples - pool_) / stride_ + 1;
    time_ = register_module("time", Conv(torch::nn::Conv2dOptions(1, filters, {1, kernel})));
    const auto across = torch::nn::Conv2dOptions(filters, filters, {electrodes, 1});
    space_ = register_module("space", ConvNorm(across, norm_of(options)));
    out_ = register_module("out", Dense(filters * windows, static_cast<std::int64_t>(task.outputs)));
  }

  torch::Tensor forward(const torch::Tensor& inputs) override {
    constexpr double kLeastPower = 1e-6;  // the logarithm of silence
    const torch::Tensor x = space_(time_(inputs));
    const torch::Tensor power = torch::avg_pool2d(x * x, {1, pool_}, {1, stride_});
    return out_(torch::log(torch::clamp_min(power, kLeastPower)).flatten(1));
  }

 private:
  std::int64_t pool_, stride_;
  Conv time_{nullptr};
  ConvNorm space_{nullptr};
  Dense out_{nullptr};
};

}  // namespace

std::unique_ptr<Model> make_shallow_convnet(const std::string& name, const Options& options, const Task& task) {
  const Task trials = as_images(name, task, 1);
  const std::int64_t samples = trials.input_shape[2], needed = options.integer("kernel") + options.integer("pool") - 1;
  if (trials.input_shape[0] != 1) {
    fail("model {}: expected trials of electrodes × samples, found {} channels of them", name, trials.input_shape[0]);
  }
  if (samples < needed) {
    fail("model {}: a trial has {} samples, but model.kernel and model.pool need {}; lower them", name, samples,
         needed);
  }
  return make_network_model(name, std::make_shared<ShallowConvNet>(trials, options), trials);
}

}  // namespace parley
