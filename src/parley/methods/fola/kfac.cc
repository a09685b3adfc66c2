#include "parley/methods/fola/kfac.h"

#include <algorithm>

#include "parley/base/errors.h"
#include "parley/gauss/kronecker.h"
#include "parley/methods/fola/layered.h"
#include "parley/model/curvature.h"

namespace parley {
namespace {

constexpr const char *kMoments = "moments", *kInputs = "inputs", *kOutputs = "outputs";
constexpr double kTolerance = 1e-5;

class KfacFola final : public Method, private Posterior {
 public:
  explicit KfacFola(const MethodContext& context)
      : layout_(context.layout),
        layered_(context),
        output_ridge_(static_cast<float>(context.options.real("output_ridge"))),
        epsilon_(static_cast<float>(context.options.real("epsilon"))),
        unit_scale_(context.options.text("output_scale") == "unit"),
        cg_steps_(static_cast<std::size_t>(context.options.integer("cg_steps"))) {}

  // `moments` has BWA in the places of a layer's weights and bias, and θ itself everywhere else. A sum of A ⊗ B is not
  // of that form, so the factors of each client are kept.
  Schema schema() const override {
    ChannelSpec inputs = layered_.inputs_channel(kInputs);
    inputs.weighting = Weighting::each;
    return {.channels = {
                {.name = kMoments, .layout = layout_, .statistic = true},
                std::move(inputs),
                {.name = kOutputs, .count = layered_.outputs_size(), .weighting = Weighting::each, .statistic = true}}};
  }

  void start(State& state) const override { layered_.start(state); }

  void client(const ClientTask& task, Update& update) const override {
    task.load();
    Flat &moments = update[kMoments], &inputs = update[kInputs], &outputs = update[kOutputs];
    train_and_measure_outputs(task, update, outputs);
    update.pack(kInputs, layered_.measure_inputs(task, inputs));
    std::ranges::copy(task.model.parameters(), moments.begin());
    layered_.change_layers(std::span(moments), [&](const LayerMatrix& layer, std::span<float> w) {
      times_kronecker(w, layer.rows(), layer.width(), term_of(layer, 1.0, inputs, outputs));
    });
  }

  void server(ServerTask& task) const override {
    FlatDouble target = task.sum.take_mean(kMoments);
    double residual = 0.0;
    layered_.change_layers(std::span(target), [&](const LayerMatrix& layer, std::span<double> w) {
      std::vector<KroneckerTerm> terms;
      for (const auto& single : task.sum.singles()) {
        terms.push_back(term_of(layer, single.weight / task.sum.weight(), single[kInputs], single[kOutputs]));
      }
      const auto report = solve_kronecker(terms, layer.rows(), layer.width(), cg_steps_, kTolerance, w);
      residual = std::max(residual, report.residual);
    });
    task.metrics["cg_residual"] = residual;
    task.move_theta(target);
    layered_.keep(task.state, mean_inputs(task.sum));
  }

  const Posterior* posterior() const override { return this; }

 private:
  void draw(const State& state, const Draw& how, Stream& stream, std::span<float> theta) const override {
    layered_.draw(state, how, stream, theta);
  }

  static KroneckerTerm term_of(const LayerMatrix& layer, double weight, std::span<const float> inputs,
                               std::span<const float> outputs) {
    return {.weight = weight, .inputs = layer.inputs_of(inputs), .outputs = layer.outputs_of(outputs)};
  }

  std::vector<double> mean_inputs(const Sum& sum) const {
    std::vector<double> mean(layered_.inputs_size(), 0.0);
    for (const auto& single : sum.singles()) {
      const double share = single.weight / sum.weight();
      const Flat& inputs = single[kInputs];
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += share * static_cast<double>(inputs[i]);
    }
    return mean;
  }

  // B along the path: at a client's optimum its gradients, and with them B, would vanish. Its size then tells how long
  // a client took to learn its task rather than how sure it is, which is why it is left out by default.
  void train_and_measure_outputs(const ClientTask& task, Update& update, std::span<float> outputs) const {
    std::vector<Flat> sums;
    for (const auto& layer : layered_.layers()) sums.emplace_back(layer.rows() * layer.rows(), 0.0f);
    task.model.observe([&](const LayerPass& pass) { add_output_gram(pass, sums[pass.index]); });
    layered_.train(task, update);
    task.model.observe({});
    const float scale = 1.0f / static_cast<float>(update.training.examples);
    for (std::size_t l = 0; l < sums.size(); ++l) {
      const auto& layer = layered_.layers()[l];
      float mean = 0.0f;  // of B's diagonal
      for (std::size_t i = 0; i < layer.rows(); ++i) mean += scale * sums[l][i * (layer.rows() + 1)];
      mean /= static_cast<float>(layer.rows());
      const float size = unit_scale_ ? mean + epsilon_ : 1.0f;
      // ε where there was no gradient at all.
      pack_symmetric(sums[l], layer.rows(), scale / size, (output_ridge_ * mean + epsilon_) / size,
                     layer.outputs_of(outputs));
    }
  }

  std::shared_ptr<const Layout> layout_;
  Layered layered_;
  float output_ridge_, epsilon_;
  bool unit_scale_;
  std::size_t cg_steps_;
};

}  // namespace

std::unique_ptr<Method> make_kfac_fola(const MethodContext& context) {
  return std::make_unique<KfacFola>(context);
}

}  // namespace parley
