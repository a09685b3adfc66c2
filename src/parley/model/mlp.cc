#include "parley/model/mlp.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "parley/model/dense.h"
#include "parley/model/losses.h"
#include "parley/model/variational.h"
#include "parley/tensor/flat.h"

namespace parley {
namespace {

class Mlp final : public Model {
 public:
  explicit Mlp(MlpPlan plan)
      : plan_(std::move(plan)),
        layout_(plan_.layout()),
        parameters_(layout_.size()),
        gradients_(layout_.size()),
        activations_(plan_.layers() - 1),
        masks_(plan_.layers() - 1) {
    const auto& entries = layout_.entries();
    for (std::size_t l = 0; l < plan_.layers(); ++l) layers_.push_back({entries[2 * l], entries[2 * l + 1]});
  }

  const Layout& layout() const override { return layout_; }
  std::span<float> parameters() override { return parameters_; }
  std::span<float> gradients() override { return gradients_; }
  std::size_t outputs() const override { return plan_.widths.back(); }
  Loss loss() const override { return plan_.loss; }
  void reseed(const Stream& noise) override { noise_ = noise; }
  std::span<const Layer> layers() const override { return layers_; }
  std::unique_ptr<Variational> variational(bool with_private) const override {
    return make_variational_mlp(plan_, with_private);
  }
  void observe(LayerObserver observer) override { observer_ = std::move(observer); }
  const MlpPlan& plan() const { return plan_; }

  double backward(const Batch& batch) override { return backward(batch, std::nullopt); }
  std::optional<double> descend(const Batch& batch, float lr) override;
  void predict(const Batch& batch, std::span<float> outputs) override;

 private:
  std::span<float> weight(std::size_t layer, std::span<float> flat) const {
    return layout_.entries()[2 * layer].of(flat);
  }
  std::span<float> bias(std::size_t layer, std::span<float> flat) const {
    return layout_.entries()[2 * layer + 1].of(flat);
  }
  void reserve(std::size_t rows);
  void show(std::size_t layer, std::size_t rows, const float* input, std::span<const float> deltas) const;
  // Hidden activations, then the outputs into `outputs`.
  void forward(const Batch& batch, bool training, float* outputs);
  void drop_out(std::size_t layer, std::size_t count);
  // With a learning rate each layer takes its step instead of leaving its gradient.
  double backward(const Batch& batch, std::optional<float> lr);
  void back_through_activation(std::size_t layer, std::size_t count, float* delta);

  MlpPlan plan_;
  Layout layout_;
  Flat parameters_;
  Flat gradients_;
  std::vector<Flat> activations_;  // of the hidden layers, behind dropout
  std::vector<Flat> masks_;        // their dropout
  Flat delta_, next_delta_;        // gradients at the activations, while going back
  std::size_t capacity_ = 0;       // rows the buffers hold
  Stream noise_{0, "dropout"};
  std::vector<Layer> layers_;
  LayerObserver observer_;
};

void Mlp::show(std::size_t layer, std::size_t rows, const float* input, std::span<const float> deltas) const {
  if (!observer_) return;
  observer_({.index = layer,
             .layer = layers_[layer],
             .rows = rows,
             .rows_per_example = 1,
             .inputs = {input, rows * plan_.widths[layer]},
             .deltas = deltas});
}

void Mlp::reserve(std::size_t rows) {
  if (rows <= capacity_) return;
  for (std::size_t l = 0; l < activations_.size(); ++l) {
    activations_[l].resize(rows * plan_.widths[l + 1]);
    if (plan_.dropout > 0.0) masks_[l].resize(rows * plan_.widths[l + 1]);
  }
  const auto widest = *std::max_element(plan_.widths.begin() + 1, plan_.widths.end());
  delta_.resize(rows * widest);
  next_delta_.resize(rows * widest);
  capacity_ = rows;
}

void Mlp::drop_out(std::size_t layer, std::size_t count) {
  draw_dropout(noise_, plan_.dropout, std::span(masks_[layer]).first(count));
  const float* mask = masks_[layer].data();
  float* activation = activations_[layer].data();
  for (std::size_t i = 0; i < count; ++i) activation[i] *= mask[i];
}

void Mlp::forward(const Batch& batch, bool training, float* outputs) {
  assert(batch.inputs.size() == batch.size * plan_.widths.front());
  reserve(batch.size);
  const float* input = batch.inputs.data();
  const std::size_t last = plan_.layers() - 1;
  for (std::size_t l = 0; l <= last; ++l) {
    const std::size_t in = plan_.widths[l], out = plan_.widths[l + 1];
    float* z = l == last ? outputs : activations_[l].data();
    if (!training) show(l, batch.size, input, {});
    multiply(Form::plain, Form::transposed, batch.size, out, in, input, weight(l, parameters_).data(), z);
    if (l == last) return add_bias(batch.size, bias(l, parameters_), z);
    with_activation(plan_.activation,
                    [&](auto kind) { add_bias_and_activate<kind()>(batch.size, bias(l, parameters_), z); });
    if (training && plan_.dropout > 0.0) drop_out(l, batch.size * out);
    input = z;
  }
}

void Mlp::back_through_activation(std::size_t layer, std::size_t count, float* delta) {
  const float* activation = activations_[layer].data();
  with_activation(plan_.activation, [&](auto kind) {
    if (plan_.dropout > 0.0) {
      const auto keep = static_cast<float>(1.0 - plan_.dropout);
      multiply_by_slope<kind()>(count, activation, masks_[layer].data(), keep, delta);
    } else {
      multiply_by_slope<kind()>(count, activation, delta);
    }
  });
}

double Mlp::backward(const Batch& batch, std::optional<float> lr) {
  assert(batch.size > 0);
  reserve(batch.size);
  const std::size_t rows = batch.size;
  forward(batch, true, delta_.data());
  const double mean_loss = loss_and_gradient(plan_.loss, batch, outputs(), std::span(delta_).first(rows * outputs()));
  for (std::size_t l = plan_.layers(); l-- > 0;) {
    const std::size_t in = plan_.widths[l], out = plan_.widths[l + 1];
    const float* input = l == 0 ? batch.inputs.data() : activations_[l - 1].data();
    show(l, rows, input, std::span(delta_).first(rows * out));
    if (l > 0) {  // nobody asks for the gradient at the data; and it takes the weights from before their step
      multiply(Form::plain, Form::plain, rows, in, out, delta_.data(), weight(l, parameters_).data(),
               next_delta_.data());
      back_through_activation(l - 1, rows * in, next_delta_.data());
    }
    if (lr) {
      take_dense_step(rows, in, delta_.data(), input, *lr, weight(l, parameters_), bias(l, parameters_),
                      bias(l, gradients_));
    } else {
      multiply(Form::transposed, Form::plain, out, in, rows, delta_.data(), input, weight(l, gradients_).data());
      sum_rows(rows, delta_.data(), bias(l, gradients_));
    }
    std::swap(delta_, next_delta_);
  }
  return mean_loss;
}

std::optional<double> Mlp::descend(const Batch& batch, float lr) {
  if (batch.size > kMostExamples) return std::nullopt;
  return backward(batch, lr);
}

void Mlp::predict(const Batch& batch, std::span<float> outputs) {
  assert(outputs.size() == batch.size * plan_.widths.back());
  if (batch.size > 0) forward(batch, false, outputs.data());
}

std::size_t features(const Task& task) {
  std::size_t count = 1;
  for (const auto extent : task.input_shape) count *= static_cast<std::size_t>(extent);
  return count;
}

MlpPlan plan_without_hidden(const Task& task, Loss loss) {
  return {.widths = {features(task), task.outputs}, .loss = loss};
}

}  // namespace

// Two decisions from each 64 random bits; the threshold is exact to 2^-32.
void draw_dropout(Stream& noise, double dropout, std::span<float> mask) {
  const auto threshold = static_cast<std::uint64_t>(dropout * 0x1.0p32);
  const auto scale = static_cast<float>(1.0 / (1.0 - dropout));
  for (std::size_t i = 0; i < mask.size(); i += 2) {
    const std::uint64_t bits = noise.bits();
    mask[i] = (bits & 0xffffffffu) >= threshold ? scale : 0.0f;
    if (i + 1 < mask.size()) mask[i + 1] = (bits >> 32) >= threshold ? scale : 0.0f;
  }
}

Layout MlpPlan::layout() const {
  std::vector<LayoutEntry> entries;
  for (std::size_t l = 0; l < layers(); ++l) {
    const auto in = static_cast<std::int64_t>(widths[l]);
    const auto out = static_cast<std::int64_t>(widths[l + 1]);
    entries.push_back({.name = fmt::format("fc{}.weight", l + 1), .shape = {out, in}});
    entries.push_back({.name = fmt::format("fc{}.bias", l + 1), .shape = {out}, .role = Role::bias});
  }
  return Layout(std::move(entries));
}

MlpPlan plan_mlp(const Options& options, const Task& task) {
  MlpPlan plan{.widths = {features(task)}, .loss = task.loss};
  for (const auto width : options.integers("hidden")) {
    plan.widths.push_back(static_cast<std::size_t>(width));
  }
  plan.widths.push_back(task.outputs);
  const std::string& activation = options.text("activation");
  plan.activation = activation == "relu"      ? Activation::relu
                    : activation == "sigmoid" ? Activation::sigmoid
                                              : Activation::tanh;
  plan.dropout = options.real("dropout");
  return plan;
}

std::unique_ptr<Model> make_native_mlp(const MlpPlan& plan) {
  return std::make_unique<Mlp>(plan);
}

const MlpPlan* plan_of(const Model& model) {
  const auto* const mlp = dynamic_cast<const Mlp*>(&model);
  return mlp == nullptr ? nullptr : &mlp->plan();
}

void add_linear(ModelRegistry& registry) {
  registry.add({.name = "linear",
                .summary = "Linear regression Wx + b by least squares; on classes, towards their "
                           "one-hot vectors.",
                .source = "",
                .options = {}},
               {{"native", [](const Options&, const Task& task) {
                   return make_native_mlp(plan_without_hidden(task, Loss::mse));
                 }}});
}

void add_logistic(ModelRegistry& registry) {
  registry.add({.name = "logistic",
                .summary = "Multinomial logistic regression: softmax(Wx + b) with cross-entropy.",
                .source = "",
                .options = {}},
               {{"native", [](const Options&, const Task& task) {
                   if (task.loss != Loss::cross_entropy) {
                     fail(
                         "model.name: 'logistic' needs classes and loss 'cross_entropy'; use "
                         "'linear' for regression");
                   }
                   return make_native_mlp(plan_without_hidden(task, Loss::cross_entropy));
                 }}});
}

void add_mlp(ModelRegistry& registry) {
  registry.add(
      {.name = "mlp",
       .summary = "Multi-layer perceptron of any widths.",
       .source = "McMahan et al. 2017 (2NN: hidden = [200, 200])",
       .options = {{"hidden", std::vector<std::int64_t>{200, 200}, "widths of the hidden layers", at_least(1)},
                   {"activation", std::string("relu"), "of the hidden layers", {}, {"relu", "sigmoid", "tanh"}},
                   {"dropout",
                    0.0,
                    "share of hidden activations set to zero in training",
                    {.low = 0.0, .high = 1.0, .high_excluded = true}}}},
      {{"native", [](const Options& options, const Task& task) { return make_native_mlp(plan_mlp(options, task)); }}});
}

}  // namespace parley
