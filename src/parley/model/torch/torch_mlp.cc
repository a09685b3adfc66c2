#include "parley/model/mlp.h"

#include "parley/model/torch/networks.h"
#include "parley/model/torch/pair.h"

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
class MlpNetwork final : public PairedNetwork {
 public:
  explicit MlpNetwork(const MlpPlan& plan, MlpNetwork* shared = nullptr) : plan_(plan) {
    for (std::size_t l = 0; l < plan_.layers(); ++l) {
      const auto in = static_cast<std::int64_t>(plan_.widths[l]), out = static_cast<std::int64_t>(plan_.widths[l + 1]);
      layers_.push_back(register_module(fmt::format("fc{}", l + 1), Dense(in, out)));
    }
    if (shared != nullptr) listen_to(*shared, {plan_.widths.begin() + 1, plan_.widths.end()});
  }

  void reseed(const Stream& noise) override { noise_ = noise; }

  torch::Tensor forward(const torch::Tensor& inputs) override {
    torch::Tensor x = inputs;
    const std::size_t last = plan_.layers() - 1;
    for (std::size_t l = 0; l < last; ++l) {
      x = tell(l, activate(plan_.activation, hear(l, layers_[l](x))));
      if (is_training() && plan_.dropout > 0.0) x = x * mask(x.sizes());
    }
    return outputs(last, layers_[last](x));
  }

  std::shared_ptr<Network> with_private() const override { return make_beside<MlpNetwork>(plan_); }

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

}  // namespace

std::unique_ptr<Model> make_torch_mlp(const std::string& name, const Options& options, const Task& task) {
  const MlpPlan plan = plan_mlp(options, task);
  return make_network_model(name + " (torch)", std::make_shared<MlpNetwork>(plan), flat(task, plan.widths.front()));
}

}  // namespace parley
