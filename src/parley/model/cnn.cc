#include "parley/model/cnn.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

#include "parley/base/errors.h"
#include "parley/gauss/loops.h"
#include "parley/gauss/normal.h"
#include "parley/model/cnn_loops.h"
#include "parley/model/convolution.h"
#include "parley/model/dense.h"
#include "parley/model/losses.h"
#include "parley/tensor/flat.h"

namespace parley {
namespace {

std::size_t count(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

// What a layer multiplies its inputs by; `in()` and `out()` floats an example.
class Product {
 public:
  virtual ~Product() = default;
  virtual std::size_t in() const = 0;
  virtual std::size_t out() const = 0;
  virtual void forward(std::size_t n, const float* x, const float* weight, const float* bias, float* z) = 0;
  // The gradients, as of Convolution; `by_x` may be null, or x itself.
  virtual void backward(std::size_t n, const float* x, const float* delta, const float* weight, float* by_weight,
                        float* by_bias, float* by_x) = 0;
  // The rows that a LayerObserver is shown for each example, all of them, in `scratch` where they do not lie ready.
  virtual std::size_t rows() const = 0;
  virtual std::span<const float> input_rows(std::size_t n, const float* x, Flat& scratch) const = 0;
};

class DenseProduct final : public Product {
 public:
  DenseProduct(std::size_t in, std::size_t out) : in_(in), out_(out) {}
  std::size_t in() const override { return in_; }
  std::size_t out() const override { return out_; }
  void forward(std::size_t n, const float* x, const float* weight, const float* bias, float* z) override {
    multiply(Form::plain, Form::transposed, n, out_, in_, x, weight, z);
    add_bias(n, {bias, out_}, z);
  }
  void backward(std::size_t n, const float* x, const float* delta, const float* weight, float* by_weight,
                float* by_bias, float* by_x) override {
    multiply(Form::transposed, Form::plain, out_, in_, n, delta, x, by_weight);
    sum_rows(n, delta, {by_bias, out_});
    if (by_x != nullptr) multiply(Form::plain, Form::plain, n, in_, out_, delta, weight, by_x);
  }
  std::size_t rows() const override { return 1; }
  std::span<const float> input_rows(std::size_t n, const float* x, Flat&) const override { return {x, n * in_}; }

 private:
  std::size_t in_, out_;
};

class ConvolutionProduct final : public Product {
 public:
  explicit ConvolutionProduct(const ConvolutionShape& shape) : convolution_(shape) {}
  std::size_t in() const override { return convolution_.shape().inputs(); }
  std::size_t out() const override { return convolution_.shape().outputs(); }
  void forward(std::size_t n, const float* x, const float* weight, const float* bias, float* z) override {
    convolution_.forward(n, x, weight, bias, z);
  }
  void backward(std::size_t n, const float* x, const float* delta, const float* weight, float* by_weight,
                float* by_bias, float* by_x) override {
    convolution_.backward(n, x, delta, weight, by_weight, by_bias, by_x);
  }
  std::size_t rows() const override { return convolution_.shape().positions(); }
  std::span<const float> input_rows(std::size_t n, const float* x, Flat& scratch) const override {
    const auto& shape = convolution_.shape();
    scratch.resize(n * shape.positions() * shape.in * shape.kernel * shape.kernel);
    copy_patches(shape, n, x, scratch.data());
    return scratch;
  }

 private:
  Convolution convolution_;
};

// A product with its weights' places in the layout, and what drawing its outputs leaves for the way back.
struct ProductLayer {
  std::unique_ptr<Product> product;
  Flat noise, deviation;
};

// What follows a convolution: a norm where there is one, relu, perhaps pooling.
struct Stage {
  std::size_t height, width, channels;  // behind the convolution
  bool pool;
  std::vector<LayoutEntry> norm;  // scale, shift, and of batch norm also running mean, variance and counter
  Flat z, activation;             // of the convolution, and behind everything
  std::vector<std::int32_t> largest;
  Flat scale, shift, by_z;     // for each image's channels
  FlatDouble sums, products;   // the same
  FlatDouble means, inverses;  // of each set that is normalised together: mean, 1/√(variance + ε)

  std::size_t behind() const { return (pool ? (height / 2) * (width / 2) : height * width) * channels; }
  Planes planes(std::size_t images) const { return {images, height, width, channels}; }
};

Layout layout_of(const CnnPlan& plan, const Task& image) {
  std::vector<LayoutEntry> entries;
  const auto add = [&](std::string name, std::vector<std::int64_t> shape, Role role) {
    entries.push_back({.name = std::move(name), .shape = std::move(shape), .role = role});
  };
  std::int64_t in = image.input_shape[0], height = image.input_shape[1], width = image.input_shape[2];
  for (std::size_t i = 0; i < plan.convolutions.size(); ++i) {
    const ConvRow& row = plan.convolutions[i];
    const std::string name = fmt::format("conv{}", i + 1);
    add(name + (plan.norm ? ".conv.weight" : ".weight"), {row.out, in, row.kernel, row.kernel}, Role::weight);
    if (!plan.norm) add(name + ".bias", {row.out}, Role::bias);
    if (plan.norm) {
      add(name + ".norm.weight", {row.out}, Role::norm_scale);
      add(name + ".norm.bias", {row.out}, Role::norm_shift);
    }
    if (plan.norm == NormKind::batch) {
      add(name + ".norm.running_mean", {row.out}, Role::running_mean);
      add(name + ".norm.running_var", {row.out}, Role::running_var);
      add(name + ".norm.num_batches_tracked", {}, Role::counter);
    }
    in = row.out;
    height = row.size_behind(height);
    width = row.size_behind(width);
  }
  in *= height * width;
  std::vector<std::int64_t> widths = plan.hidden;
  widths.push_back(static_cast<std::int64_t>(image.outputs));
  for (std::size_t i = 0; i < widths.size(); ++i) {
    add(fmt::format("fc{}.weight", i + 1), {widths[i], in}, Role::weight);
    add(fmt::format("fc{}.bias", i + 1), {widths[i]}, Role::bias);
    in = widths[i];
  }
  return Layout(std::move(entries));
}

// [images, rows, columns] -> [images, columns, rows]
void transpose(std::size_t images, std::size_t rows, std::size_t columns, const float* from, float* to) {
  for (std::size_t image = 0; image < images; ++image, from += rows * columns, to += rows * columns) {
    for (std::size_t c = 0; c < columns; ++c) {
      for (std::size_t r = 0; r < rows; ++r) to[c * rows + r] = from[r * columns + c];
    }
  }
}

class Cnn final : public Model {
 public:
  Cnn(const CnnPlan& plan, const Task& image);

  const Layout& layout() const override { return layout_; }
  std::span<float> parameters() override { return parameters_; }
  std::span<float> gradients() override { return gradients_; }
  std::size_t outputs() const override { return task_.outputs; }
  Loss loss() const override { return task_.loss; }
  std::span<const Layer> layers() const override { return layers_; }
  void observe(LayerObserver observer) override { observer_ = std::move(observer); }
  std::vector<LayoutEntry> spread(std::span<float> variances, std::span<float> by_variance, Stream& noise) override;

  double backward(const Batch& batch) override { return backward(batch, std::nullopt); }
  std::optional<double> descend(const Batch& batch, float lr) override;
  void predict(const Batch& batch, std::span<float> outputs) override;

 private:
  struct Spread {
    std::span<float> variances, by_variance;
    Stream* noise;
  };

  void add_layer(std::unique_ptr<Product> product, const std::string& name, bool with_bias);
  void reserve(std::size_t n);
  const float* weight(std::size_t layer, std::span<const float> flat) const {
    return layers_[layer].weight.of(flat).data();
  }
  template <class T>
  T* bias(std::size_t layer, std::span<T> flat) const {
    return layers_[layer].bias ? layers_[layer].bias->of(flat).data() : nullptr;
  }

  void show(std::size_t layer, std::size_t n, const float* x, std::span<const float> deltas);
  void forward(std::size_t layer, std::size_t n, const float* x, float* z, bool training);
  void draw(std::size_t layer, std::size_t n, const float* x, float* z);
  // The gradients at the weights, and at the inputs unless `to` is null.
  void backward(std::size_t layer, std::size_t n, const float* x, const float* delta, float* to);
  void backward_draw(std::size_t layer, std::size_t n, const float* x, const float* delta, float* to);
  // The gradient at the inputs, and then a step of a dense layer's weights.
  void descend(std::size_t layer, std::size_t n, const float* x, const float* delta, float* to, float lr);
  // With a learning rate every weight takes its step; the dense ones, which are nearly all, leave no gradient.
  double backward(const Batch& batch, std::optional<float> lr);

  std::size_t set_of(const Stage& stage, std::size_t image, std::size_t channel) const;
  std::size_t sets(const Stage& stage, std::size_t n) const;
  double set_size(const Stage& stage, std::size_t n) const;
  void measure(Stage& stage, std::size_t n);
  void take_running(Stage& stage);
  void update_running(const Stage& stage, std::size_t n);
  void set_scales(Stage& stage, std::size_t n);
  void backward_norm(Stage& stage, std::size_t n, float* delta);

  void forward(std::size_t n, const float* inputs, bool training, float* outputs);
  void forward_stage(std::size_t i, std::size_t n, const float* x, bool training);
  void backward_stage(std::size_t i, std::size_t n, const float* x);
  const float* stage_input(std::size_t i) const { return i == 0 ? images_ : stages_[i - 1].activation.data(); }
  const float* dense_input(std::size_t i) const { return i == 0 ? flat_.data() : hidden_[i - 1].data(); }

  CnnPlan plan_;
  Task task_;
  Layout layout_;
  Flat parameters_, gradients_;
  std::vector<Layer> layers_;  // convolutions, then dense ones
  std::vector<ProductLayer> products_;
  std::vector<Stage> stages_;
  Flat channels_last_;             // the inputs, where they have several channels
  const float* images_ = nullptr;  // the inputs, channels last
  Flat flat_;                      // behind the convolutions, channels first as the dense layer's weights expect
  std::vector<Flat> hidden_;       // behind each dense layer but the last
  Flat delta_, next_delta_;        // gradients, while going back
  Flat square_, patches_, weight_scratch_, bias_scratch_;
  std::array<FlatDouble, 4> totals_;  // of backward_norm()
  std::size_t capacity_ = 0;
  LayerObserver observer_;
  std::optional<Spread> spread_;
};

Cnn::Cnn(const CnnPlan& plan, const Task& image)
    : plan_(plan),
      task_(image),
      layout_(layout_of(plan, image)),
      parameters_(layout_.size()),
      gradients_(layout_.size()),
      hidden_(plan.hidden.size()) {
  std::size_t in = count(image.input_shape[0]), height = count(image.input_shape[1]),
              width = count(image.input_shape[2]);
  for (std::size_t i = 0; i < plan.convolutions.size(); ++i) {
    const ConvRow& row = plan.convolutions[i];
    const ConvolutionShape shape{.in = in,
                                 .out = count(row.out),
                                 .kernel = count(row.kernel),
                                 .padding = count(row.padding),
                                 .height = height,
                                 .width = width};
    const std::string name = fmt::format("conv{}", i + 1);
    add_layer(std::make_unique<ConvolutionProduct>(shape), plan.norm ? name + ".conv" : name, !plan.norm);
    stages_.push_back(
        {.height = shape.out_height(), .width = shape.out_width(), .channels = shape.out, .pool = row.pool});
    for (const char* part : {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}) {
      const LayoutEntry* const entry = layout_.find(fmt::format("{}.norm.{}", name, part));
      if (entry != nullptr) stages_.back().norm.push_back(*entry);
    }
    in = shape.out;
    height = count(row.size_behind(static_cast<std::int64_t>(height)));
    width = count(row.size_behind(static_cast<std::int64_t>(width)));
  }
  in *= height * width;
  for (std::size_t i = 0; i <= plan.hidden.size(); ++i) {
    const std::size_t out = i < plan.hidden.size() ? count(plan.hidden[i]) : image.outputs;
    add_layer(std::make_unique<DenseProduct>(in, out), fmt::format("fc{}", i + 1), true);
    in = out;
  }
}

void Cnn::add_layer(std::unique_ptr<Product> product, const std::string& name, bool with_bias) {
  layers_.push_back({.weight = *layout_.find(name + ".weight"),
                     .bias = with_bias ? std::optional(*layout_.find(name + ".bias")) : std::nullopt});
  products_.push_back({.product = std::move(product)});
}

void Cnn::reserve(std::size_t n) {
  if (n <= capacity_) return;
  capacity_ = n;
  std::size_t widest = 0;
  for (auto& stage : stages_) {
    stage.z.resize(stage.planes(n).size());
    stage.activation.resize(n * stage.behind());
    if (stage.pool) stage.largest.resize(n * stage.behind());
    for (Flat* values : {&stage.scale, &stage.shift, &stage.by_z}) values->resize(n * stage.channels);
    for (FlatDouble* values : {&stage.sums, &stage.products, &stage.means, &stage.inverses}) {
      values->resize(n * stage.channels);
    }
    widest = std::max(widest, stage.planes(1).size());
    if (plan_.norm) continue;
    std::ranges::fill(stage.scale, 1.0f);
    std::ranges::fill(stage.shift, 0.0f);
  }
  for (std::size_t i = 0; i < products_.size(); ++i) {
    widest = std::max({widest, products_[i].product->in(), products_[i].product->out()});
  }
  for (std::size_t i = 0; i < hidden_.size(); ++i) hidden_[i].resize(n * products_[stages_.size() + i].product->out());
  channels_last_.resize(n * products_.front().product->in());
  flat_.resize(n * stages_.back().behind());
  delta_.resize(n * widest);
  next_delta_.resize(n * widest);
}

// ---- products ----

void Cnn::show(std::size_t layer, std::size_t n, const float* x, std::span<const float> deltas) {
  if (!observer_) return;
  const Product& product = *products_[layer].product;
  observer_({.index = layer,
             .layer = layers_[layer],
             .rows = n * product.rows(),
             .rows_per_example = product.rows(),
             .inputs = product.input_rows(n, x, patches_),
             .deltas = deltas});
}

void Cnn::forward(std::size_t layer, std::size_t n, const float* x, float* z, bool training) {
  const std::span<const float> weights = parameters_;
  products_[layer].product->forward(n, x, weight(layer, weights), bias(layer, weights), z);
  if (spread_) draw(layer, n, x, z);
  if (!training) show(layer, n, x, {});
}

void Cnn::backward(std::size_t layer, std::size_t n, const float* x, const float* delta, float* to) {
  Product& product = *products_[layer].product;
  const std::span<float> gradients = gradients_;
  product.backward(n, x, delta, weight(layer, parameters_), layers_[layer].weight.of(gradients).data(),
                   bias(layer, gradients), to);
  if (spread_) backward_draw(layer, n, x, delta, to);
  show(layer, n, x, {delta, n * product.out()});
}

std::vector<LayoutEntry> Cnn::spread(std::span<float> variances, std::span<float> by_variance, Stream& noise) {
  spread_ = Spread{variances, by_variance, &noise};
  std::vector<LayoutEntry> entries;
  for (const auto& layer : layers_) {
    entries.push_back(layer.weight);
    if (layer.bias) entries.push_back(*layer.bias);
  }
  return entries;
}

// z ~ N(x·W_μ + b_μ, x²·W_σ² + b_σ²), each by itself.
void Cnn::draw(std::size_t layer, std::size_t n, const float* x, float* z) {
  constexpr float kLeast = 1e-20f;  // inputs of zero have no variance, and √ no derivative there
  auto& [product, noise, deviation] = products_[layer];
  const std::size_t inputs = n * product->in(), outputs = n * product->out();
  square_.resize(std::max(square_.size(), inputs));
  noise.resize(std::max(noise.size(), outputs));
  deviation.resize(std::max(deviation.size(), outputs));
  float *const square = square_.data(), *const sigma = deviation.data(), *const drawn = noise.data();
  gauss::for_each(inputs, [=](std::size_t i) { square[i] = x[i] * x[i]; });
  const std::span<const float> variances = spread_->variances;
  product->forward(n, square, weight(layer, variances), bias(layer, variances), sigma);
  gauss::fill_normal(*spread_->noise, std::span(noise).first(outputs));
  gauss::for_each(outputs, [=](std::size_t i) {
    sigma[i] = std::sqrt(sigma[i] + kLeast);
    z[i] += sigma[i] * drawn[i];
  });
}

// ∂σ² = δ·noise/2σ, and from there as in backward() with x² in the place of x.
void Cnn::backward_draw(std::size_t layer, std::size_t n, const float* x, const float* delta, float* to) {
  auto& [product, noise, deviation] = products_[layer];
  const std::size_t inputs = n * product->in();
  float *const square = square_.data(), *const by_variance = noise.data();
  const float* const sigma = deviation.data();
  gauss::for_each(inputs, [=](std::size_t i) { square[i] = x[i] * x[i]; });
  gauss::for_each(n * product->out(), [=](std::size_t i) { by_variance[i] *= 0.5f * delta[i] / sigma[i]; });
  const Layer& shown = layers_[layer];
  weight_scratch_.resize(std::max(weight_scratch_.size(), shown.weight.size));
  bias_scratch_.resize(std::max(bias_scratch_.size(), shown.out()));
  product->backward(n, square, by_variance, weight(layer, spread_->variances), weight_scratch_.data(),
                    shown.bias ? bias_scratch_.data() : nullptr, to == nullptr ? nullptr : square);
  const auto add = [](std::span<float> sum, const Flat& term) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += term[i];
  };
  add(shown.weight.of(spread_->by_variance), weight_scratch_);
  if (shown.bias) add(shown.bias->of(spread_->by_variance), bias_scratch_);
  if (to == nullptr) return;
  gauss::for_each(inputs, [=](std::size_t i) { to[i] += 2.0f * x[i] * square[i]; });
}

// ---- norms ----
//
// A set is what is normalised together, by its mean and variance: a channel of the whole batch, or eight channels of
// one image. Everything follows from sums over each image's channels.

std::size_t Cnn::set_of(const Stage& stage, std::size_t image, std::size_t channel) const {
  if (plan_.norm != NormKind::group) return channel;
  return (image * stage.channels + channel) / kChannelsPerGroup;
}

std::size_t Cnn::sets(const Stage& stage, std::size_t n) const {
  return plan_.norm != NormKind::group ? stage.channels : n * stage.channels / kChannelsPerGroup;
}

double Cnn::set_size(const Stage& stage, std::size_t n) const {
  return static_cast<double>(stage.height * stage.width * (plan_.norm != NormKind::group ? n : kChannelsPerGroup));
}

void Cnn::measure(Stage& stage, std::size_t n) {
  sum_channels(stage.planes(n), stage.z.data(), stage.z.data(), stage.sums.data(), stage.products.data());
  const std::size_t all = sets(stage, n);
  std::fill_n(stage.means.begin(), all, 0.0);
  std::fill_n(stage.inverses.begin(), all, 0.0);
  for (std::size_t i = 0; i < n * stage.channels; ++i) {
    const std::size_t set = set_of(stage, i / stage.channels, i % stage.channels);
    stage.means[set] += stage.sums[i];
    stage.inverses[set] += stage.products[i];
  }
  const double size = set_size(stage, n);
  for (std::size_t set = 0; set < all; ++set) {
    const double mean = stage.means[set] / size;
    const double variance = std::max(0.0, stage.inverses[set] / size - mean * mean);
    stage.means[set] = mean;
    stage.inverses[set] = 1.0 / std::sqrt(variance + kNormEpsilon);
  }
}

void Cnn::take_running(Stage& stage) {
  const auto mean = stage.norm[2].of(std::span(parameters_)), var = stage.norm[3].of(std::span(parameters_));
  for (std::size_t c = 0; c < stage.channels; ++c) {
    stage.means[c] = mean[c];
    stage.inverses[c] = 1.0 / std::sqrt(var[c] + kNormEpsilon);
  }
}

void Cnn::update_running(const Stage& stage, std::size_t n) {
  const auto mean = stage.norm[2].of(std::span(parameters_)), var = stage.norm[3].of(std::span(parameters_));
  const double size = set_size(stage, n), unbiased = size / (size - 1.0);
  for (std::size_t c = 0; c < stage.channels; ++c) {
    const double variance = 1.0 / (stage.inverses[c] * stage.inverses[c]) - kNormEpsilon;
    mean[c] = static_cast<float>((1.0 - kNormMomentum) * mean[c] + kNormMomentum * stage.means[c]);
    var[c] = static_cast<float>((1.0 - kNormMomentum) * var[c] + kNormMomentum * unbiased * variance);
  }
  stage.norm[4].of(std::span(parameters_))[0] += 1.0f;
}

void Cnn::set_scales(Stage& stage, std::size_t n) {
  const auto scale = stage.norm[0].of(std::span(parameters_)), shift = stage.norm[1].of(std::span(parameters_));
  for (std::size_t i = 0; i < n * stage.channels; ++i) {
    const std::size_t c = i % stage.channels, set = set_of(stage, i / stage.channels, c);
    const double factor = scale[c] * stage.inverses[set];
    stage.scale[i] = static_cast<float>(factor);
    stage.shift[i] = static_cast<float>(shift[c] - stage.means[set] * factor);
  }
}

// With x̂ = (z − mean)·inverse, γ the scale, and ⟨·⟩ the mean over a set:
//   ∂z = inverse·(γδ − ⟨γδ⟩ − x̂⟨γδx̂⟩),
// which for each image's channels is a·δ + b·z + c.
void Cnn::backward_norm(Stage& stage, std::size_t n, float* delta) {
  const Planes planes = stage.planes(n);
  sum_channels(planes, delta, stage.z.data(), stage.sums.data(), stage.products.data());
  const auto scale = stage.norm[0].of(std::span(parameters_));
  auto& [by_scale, by_shift, sum, sum_with_x] = totals_;
  for (FlatDouble* values : {&by_scale, &by_shift}) values->assign(stage.channels, 0.0);
  for (FlatDouble* values : {&sum, &sum_with_x}) values->assign(sets(stage, n), 0.0);
  for (std::size_t i = 0; i < n * stage.channels; ++i) {
    const std::size_t c = i % stage.channels, set = set_of(stage, i / stage.channels, c);
    const double with_x = stage.inverses[set] * (stage.products[i] - stage.means[set] * stage.sums[i]);
    by_scale[c] += with_x;
    by_shift[c] += stage.sums[i];
    sum[set] += scale[c] * stage.sums[i];
    sum_with_x[set] += scale[c] * with_x;
  }
  std::ranges::copy(by_scale, stage.norm[0].of(std::span(gradients_)).begin());
  std::ranges::copy(by_shift, stage.norm[1].of(std::span(gradients_)).begin());
  const double size = set_size(stage, n);
  for (std::size_t i = 0; i < n * stage.channels; ++i) {
    const std::size_t c = i % stage.channels, set = set_of(stage, i / stage.channels, c);
    const double inverse = stage.inverses[set], slope = inverse * inverse * sum_with_x[set] / size;
    stage.scale[i] = static_cast<float>(inverse * scale[c]);
    stage.by_z[i] = static_cast<float>(-slope);
    stage.shift[i] = static_cast<float>(slope * stage.means[set] - inverse * sum[set] / size);
  }
  combine_channels(planes, stage.scale.data(), stage.by_z.data(), stage.shift.data(), stage.z.data(), delta);
}

// ---- the network ----

void Cnn::forward_stage(std::size_t i, std::size_t n, const float* x, bool training) {
  Stage& stage = stages_[i];
  forward(i, n, x, stage.z.data(), training);
  if (plan_.norm) {
    if (plan_.norm == NormKind::batch && !training) {
      take_running(stage);
    } else {
      if (training && set_size(stage, n) == 1.0) refuse_single_value();  // a group has several channels
      measure(stage, n);
      if (plan_.norm == NormKind::batch) update_running(stage, n);
    }
    set_scales(stage, n);
  }
  const float *scale = stage.scale.data(), *shift = stage.shift.data();
  if (stage.pool) {
    scale_relu_and_pool(stage.planes(n), stage.z.data(), scale, shift, stage.activation.data(), stage.largest.data());
  } else {
    scale_and_relu(stage.planes(n), stage.z.data(), scale, shift, stage.activation.data());
  }
}

void Cnn::forward(std::size_t n, const float* inputs, bool training, float* outputs) {
  reserve(n);
  const std::size_t channels = count(task_.input_shape[0]);
  images_ = inputs;
  if (channels > 1) {
    transpose(n, channels, products_.front().product->in() / channels, inputs, channels_last_.data());
    images_ = channels_last_.data();
  }
  for (std::size_t i = 0; i < stages_.size(); ++i) forward_stage(i, n, stage_input(i), training);
  const Stage& last = stages_.back();
  transpose(n, last.behind() / last.channels, last.channels, last.activation.data(), flat_.data());
  for (std::size_t i = 0; i <= hidden_.size(); ++i) {
    const std::size_t layer = stages_.size() + i;
    if (i == hidden_.size()) return forward(layer, n, dense_input(i), outputs, training);
    float* const z = hidden_[i].data();
    forward(layer, n, dense_input(i), z, training);
    gauss::for_each(n * products_[layer].product->out(), [=](std::size_t j) { z[j] = z[j] < 0.0f ? 0.0f : z[j]; });
  }
}

// From the gradient behind a stage, in delta_, to the one at its inputs.
void Cnn::backward_stage(std::size_t i, std::size_t n, const float* x) {
  Stage& stage = stages_[i];
  float* const to = next_delta_.data();
  if (stage.pool) {
    back_through_pool(stage.planes(n), stage.activation.data(), stage.largest.data(), delta_.data(), to);
  } else {
    back_through_relu(stage.planes(n), stage.activation.data(), delta_.data(), to);
  }
  if (plan_.norm) backward_norm(stage, n, to);
  backward(i, n, x, to, i == 0 ? nullptr : delta_.data());  // nobody asks for the gradient at the data
}

void Cnn::descend(std::size_t layer, std::size_t n, const float* x, const float* delta, float* to, float lr) {
  const Layer& shown = layers_[layer];
  const std::size_t in = shown.in(), out = shown.out();
  multiply(Form::plain, Form::plain, n, in, out, delta, weight(layer, parameters_), to);
  show(layer, n, x, {delta, n * out});
  take_dense_step(n, in, delta, x, lr, shown.weight.of(std::span(parameters_)), shown.bias->of(std::span(parameters_)),
                  shown.bias->of(std::span(gradients_)));
}

std::optional<double> Cnn::descend(const Batch& batch, float lr) {
  if (spread_ || batch.size > kMostExamples) return std::nullopt;
  const double mean_loss = backward(batch, lr);
  const std::size_t before_dense = layers_[stages_.size()].weight.offset;
  for (std::size_t i = 0; i < before_dense; ++i) parameters_[i] -= lr * gradients_[i];
  return mean_loss;
}

double Cnn::backward(const Batch& batch, std::optional<float> lr) {
  assert(batch.size > 0);
  const std::size_t n = batch.size;
  reserve(n);
  forward(n, batch.inputs.data(), true, delta_.data());
  const double mean_loss = loss_and_gradient(task_.loss, batch, outputs(), std::span(delta_).first(n * outputs()));
  for (std::size_t i = hidden_.size() + 1; i-- > 0;) {
    const std::size_t layer = stages_.size() + i;
    lr ? descend(layer, n, dense_input(i), delta_.data(), next_delta_.data(), *lr)
       : backward(layer, n, dense_input(i), delta_.data(), next_delta_.data());
    std::swap(delta_, next_delta_);
    if (i == 0) break;
    multiply_by_slope<Activation::relu>(n * products_[layer].product->in(), dense_input(i), delta_.data());
  }
  const Stage& last = stages_.back();
  transpose(n, last.channels, last.behind() / last.channels, delta_.data(), next_delta_.data());
  std::swap(delta_, next_delta_);
  for (std::size_t i = stages_.size(); i-- > 0;) backward_stage(i, n, stage_input(i));
  return mean_loss;
}

void Cnn::predict(const Batch& batch, std::span<float> outputs) {
  assert(outputs.size() == batch.size * task_.outputs);
  // Some images at a time, where that makes no difference: what is between two layers then stays in the cache.
  constexpr std::size_t kImages = 32;
  const bool whole = observer_ || plan_.norm == NormKind::each_batch;
  const std::size_t step = whole ? batch.size : kImages, in = products_.front().product->in();
  for (std::size_t begin = 0; begin < batch.size; begin += step) {
    const std::size_t n = std::min(step, batch.size - begin);
    forward(n, batch.inputs.data() + begin * in, false, outputs.data() + begin * task_.outputs);
  }
}

}  // namespace

std::unique_ptr<Model> make_native_cnn(const CnnPlan& plan, const Task& image) {
  return std::make_unique<Cnn>(plan, image);
}

}  // namespace parley
