#include "parley/methods/fola/input.h"

#include <algorithm>

#include "parley/base/errors.h"
#include "parley/gauss/matrix_product.h"
#include "parley/model/curvature.h"

namespace parley {
namespace {

constexpr const char* kGram = "gram";

// A layer's weights with the bias as last column, and back: the matrix that A ⊗ I is a metric of.
struct LayerMatrix {
  Layer layer;
  std::size_t gram_offset;  // of its packed A in the gram channel

  std::size_t rows() const { return layer.out(); }
  std::size_t width() const { return layer.in() + 1; }
  std::size_t size() const { return rows() * width(); }

  template <class T, class U>
  void gather(std::span<const T> flat, std::span<U> matrix) const {
    const auto weight = layer.weight.of(flat);
    for (std::size_t i = 0; i < rows(); ++i) {
      std::copy_n(weight.begin() + static_cast<std::ptrdiff_t>(i * layer.in()), layer.in(),
                  matrix.begin() + static_cast<std::ptrdiff_t>(i * width()));
      matrix[(i + 1) * width() - 1] = layer.bias ? static_cast<U>(layer.bias->of(flat)[i]) : U{0};
    }
  }
  template <class T>
  void scatter(std::span<const T> matrix, std::span<T> flat) const {
    const auto weight = layer.weight.of(flat);
    for (std::size_t i = 0; i < rows(); ++i) {
      std::copy_n(matrix.begin() + static_cast<std::ptrdiff_t>(i * width()), layer.in(),
                  weight.begin() + static_cast<std::ptrdiff_t>(i * layer.in()));
      if (layer.bias) layer.bias->of(flat)[i] = matrix[(i + 1) * width() - 1];
    }
  }
};

class InputFola final : public Method {
 public:
  explicit InputFola(const MethodContext& context)
      : layout_(context.layout),
        lambda_(context.options.real("lambda")),
        ridge_(static_cast<float>(context.options.real("ridge"))),
        prior_every_(static_cast<std::size_t>(context.options.integer("prior_every"))) {
    std::vector<LayoutEntry> grams;
    for (const auto& layer : context.model.layers()) {
      if (!layer.bias) {
        fail("method.curvature = \"input\": layer {} has no bias; use \"diag\"", layer.weight.name);
      }
      const auto packed = static_cast<std::int64_t>(packed_size(layer.in() + 1));
      grams.push_back({.name = layer.weight.name, .shape = {packed}});
      layers_.push_back({layer, 0});
    }
    if (layers_.empty()) fail("method.curvature = \"input\": this model does not show its layers; use \"diag\"");
    gram_layout_ = std::make_shared<const Layout>(std::move(grams));
    for (std::size_t l = 0; l < layers_.size(); ++l) layers_[l].gram_offset = gram_layout_->entries()[l].offset;
  }

  // `moments` has W(A + ρI) in the places of a layer's weights and bias, and θ itself everywhere else.
  Schema schema() const override {
    return {.channels = {{.name = "moments", .size = layout_->size(), .statistic = true},
                         {.name = kGram, .size = gram_layout_->size(), .statistic = true}}};
  }

  void start(State& state) const override {
    state.add(kGram, gram_layout_, lambda_ > 0.0, Flat(gram_layout_->size(), 0.0f));
  }

  void client(const ClientTask& task, Update& update) const override {
    task.load();
    train(task, update);
    measure_grams(task, update.channels[1]);
    Flat& moments = update.channels[0];
    std::ranges::copy(task.model.parameters(), moments.begin());
    Flat matrix, product;
    for (const auto& layer : layers_) {
      matrix.resize(layer.size());
      product.resize(layer.size());
      layer.gather(std::span<const float>(moments), std::span(matrix));
      times_precision(matrix, layer.rows(), layer.width(), packed(layer, std::span<const float>(update.channels[1])),
                      product);
      layer.scatter(std::span<const float>(product), std::span(moments));
    }
  }

  void server(ServerTask& task) const override {
    const auto gram = task.sum.take_mean(kGram);
    task.sum.take_mean("moments");
    const auto target = task.sum.edit("moments");
    FlatDouble matrix;
    for (const auto& layer : layers_) {
      matrix.resize(layer.size());
      layer.gather(std::span<const double>(target), std::span(matrix));
      if (!solve_mean(packed(layer, gram), layer.width(), layer.rows(), matrix)) {
        fail<RunError>("round {}: the precision of {} cannot be inverted; raise method.ridge", task.round,
                       layer.layer.weight.name);
      }
      layer.scatter(std::span<const double>(matrix), target);
    }
    task.move_theta(target);
    std::ranges::transform(gram, task.state.at(kGram).begin(), [](double x) { return static_cast<float>(x); });
  }

 private:
  template <class T>
  static std::span<T> packed(const LayerMatrix& layer, std::span<T> grams) {
    return grams.subspan(layer.gram_offset, packed_size(layer.width()));
  }

  void train(const ClientTask& task, Update& update) const {
    if (lambda_ == 0.0 || task.round == 1) return task.train(update);
    const auto gram = task.broadcast.at(kGram), centre = task.broadcast.at("theta");
    const auto strength = static_cast<float>(lambda_ * task.lr() * static_cast<double>(prior_every_));
    std::vector<ProximalStep> steps;
    for (const auto& layer : layers_) steps.emplace_back(packed(layer, gram), layer.width(), strength);
    Flat matrix, start, scratch;
    const auto pull = [&](std::size_t step) {
      if (step % prior_every_ != 0) return;
      for (std::size_t l = 0; l < layers_.size(); ++l) {
        const auto& layer = layers_[l];
        for (Flat* buffer : {&matrix, &start, &scratch}) buffer->resize(layer.size());
        layer.gather(std::span<const float>(task.model.parameters()), std::span(matrix));
        layer.gather(centre, std::span(start));
        for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i] -= start[i];
        steps[l].apply(matrix, layer.rows(), scratch);
        for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i] += start[i];
        layer.scatter(std::span<const float>(matrix), task.model.parameters());
      }
    };
    task.train(update, {}, {.after_step = pull});
  }

  // A_n + ρI of every layer, by one pass over the client's data at its final weights.
  void measure_grams(const ClientTask& task, std::span<float> grams) const {
    std::vector<Flat> sums;
    std::vector<std::size_t> rows(layers_.size(), 0);
    for (const auto& layer : layers_) sums.emplace_back(layer.width() * layer.width(), 0.0f);
    task.model.observe([&](const LayerPass& pass) {
      add_input_gram(pass, sums[pass.index]);
      rows[pass.index] += pass.rows;
    });
    task.trainer.show(task.model, task.data);
    task.model.observe({});
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      pack_symmetric(sums[l], layers_[l].width(), 1.0f / static_cast<float>(rows[l]), ridge_,
                     packed(layers_[l], grams));
    }
  }

  std::shared_ptr<const Layout> layout_, gram_layout_;
  double lambda_;
  float ridge_;
  std::size_t prior_every_;
  std::vector<LayerMatrix> layers_;
};

}  // namespace

std::unique_ptr<Method> make_input_fola(const MethodContext& context) {
  return std::make_unique<InputFola>(context);
}

}  // namespace parley
