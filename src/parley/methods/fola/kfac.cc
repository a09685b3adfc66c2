#include "parley/methods/fola/kfac.h"

#include <algorithm>
#include <utility>

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

  // `moments` has B(W − W_S)A, with the memory's part, in the places of a layer's weights and bias, and θ itself
  // everywhere else. A sum of A ⊗ B is not of that form, so the factors of each client are kept for the round; what is
  // remembered of them is the product of their means.
  Schema schema() const override {
    ChannelSpec inputs = layered_.inputs_channel(kInputs);
    inputs.weighting = Weighting::each;
    return {.channels = {
                {.name = kMoments, .layout = layout_, .statistic = true},
                std::move(inputs),
                {.name = kOutputs, .count = layered_.outputs_size(), .weighting = Weighting::each, .statistic = true}}};
  }

  void start(State& state) const override {
    layered_.start(state);
    state.add(kOutputs, layered_.outputs_layout(), layered_.remembers(), Flat(layered_.outputs_size(), 0.0f));
  }

  void client(const ClientTask& task, Update& update) const override {
    task.load();
    Flat &moments = update[kMoments], &inputs = update[kInputs], &outputs = update[kOutputs];
    train_and_measure_outputs(task, update, outputs);
    update.pack(kInputs, layered_.measure_inputs(task, inputs));
    std::ranges::copy(task.model.parameters(), moments.begin());
    layered_.shift_layers(task.broadcast.at("theta"), -1.0f, std::span(moments));
    layered_.change_layers(std::span(moments), [&](const LayerMatrix& layer, std::span<float> step) {
      std::vector<Factors> factors{own_factors(layer, task.round, 1.0, inputs, outputs)};
      remember(layer, task.round, task.broadcast, factors);
      times_kronecker(step, layer.rows(), layer.width(), terms_of(factors));
    });
  }

  void server(ServerTask& task) const override {
    FlatDouble target = task.sum.take_mean(kMoments);
    double residual = 0.0;
    layered_.change_layers(std::span(target), [&](const LayerMatrix& layer, std::span<double> step) {
      std::vector<Factors> factors;
      for (const auto& single : task.sum.singles()) {
        const double share = single.weight / task.sum.weight();
        factors.push_back(own_factors(layer, task.round, share, single[kInputs], single[kOutputs]));
      }
      remember(layer, task.round, std::as_const(task.state), factors);
      const auto report = solve_kronecker(terms_of(factors), layer.rows(), layer.width(), cg_steps_, kTolerance, step);
      residual = std::max(residual, report.residual);
    });
    task.metrics["cg_residual"] = residual;
    layered_.shift_layers(std::as_const(task.state).at("theta"), 1.0, std::span(target));
    task.move_theta(target);
    layered_.keep(task.state, task.round, mean_of(task.sum, kInputs, layered_.inputs_size()));
    keep_outputs(task);
  }

  const Posterior* posterior() const override { return this; }

 private:
  void draw(const State& state, const Draw& how, Stream& stream, std::span<float> theta) const override {
    layered_.draw(state, how, stream, theta);
  }

  // One A ⊗ B of a layer, and how much it counts.
  struct Factors {
    double weight;
    std::vector<float> inputs, outputs;
  };

  static std::vector<KroneckerTerm> terms_of(const std::vector<Factors>& factors) {
    std::vector<KroneckerTerm> terms;
    for (const auto& [weight, inputs, outputs] : factors) terms.push_back({weight, inputs, outputs});
    return terms;
  }

  // A client's own, with the ridge of this round.
  Factors own_factors(const LayerMatrix& layer, std::size_t round, double weight, std::span<const float> inputs,
                      std::span<const float> outputs) const {
    const auto a = layer.inputs_of(inputs), b = layer.outputs_of(outputs);
    Factors own{weight * layered_.shares(round).own, {a.begin(), a.end()}, {b.begin(), b.end()}};
    const auto ridge = static_cast<float>(layered_.further_ridge(layer, round, a));
    for (std::size_t i = 0, at = 0; i < layer.width(); ++i, at += i + 1) own.inputs[at] += ridge;
    return own;
  }

  // Adds A_S ⊗ B_S of the earlier rounds.
  template <class From>
  void remember(const LayerMatrix& layer, std::size_t round, const From& from, std::vector<Factors>& factors) const {
    const double share = layered_.shares(round).memory;
    if (share == 0.0) return;
    const auto b = layer.outputs_of(std::span<const float>(from.at(kOutputs)));
    Factors& memory = factors.emplace_back(share, std::vector<float>(packed_size(layer.width())),
                                           std::vector<float>(b.begin(), b.end()));
    expand(layered_.memory(layer, from), layer.width(), memory.inputs);
  }

  void keep_outputs(ServerTask& task) const {
    const auto [own, shared] = layered_.shares(task.round);
    const auto kept = task.state.at(kOutputs);
    const auto mean = mean_of(task.sum, kOutputs, kept.size());
    for (std::size_t i = 0; i < kept.size(); ++i) {
      kept[i] = static_cast<float>(own * mean[i] + shared * static_cast<double>(kept[i]));
    }
  }

  static std::vector<double> mean_of(const Sum& sum, const char* channel, std::size_t size) {
    std::vector<double> mean(size, 0.0);
    for (const auto& single : sum.singles()) {
      const double share = single.weight / sum.weight();
      const Flat& values = single[channel];
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += share * static_cast<double>(values[i]);
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
