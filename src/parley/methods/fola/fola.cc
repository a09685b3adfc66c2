#include "parley/methods/fola/fola.h"

#include <algorithm>
#include <cmath>

#include "parley/base/errors.h"
#include "parley/gauss/normal.h"
#include "parley/methods/fisher.h"
#include "parley/methods/fola/compress.h"
#include "parley/methods/fola/input.h"
#include "parley/methods/fola/kfac.h"
#include "parley/methods/fola/layered.h"

namespace parley {
namespace {

constexpr const char *kPrecision = "precision", *kMoment = "second_moment";

struct FolaOptions {
  double lambda, gamma, epsilon, compress;
  bool online, mixture, shrink;
  FisherMeter::Of gradient;

  explicit FolaOptions(const MethodContext& context)
      : lambda(context.options.real("lambda")),
        gamma(context.options.real("gamma")),
        epsilon(context.options.real("epsilon")),
        compress(context.options.real("compress")),
        online(context.options.text("fisher") == "online"),
        mixture(context.options.text("aggregation") == "mixture"),
        shrink(context.options.text("zero_precision") == "shrink"),
        gradient(FisherMeter::of(context)) {}

  static std::vector<Option> declared() {
    std::vector<Option> options{
        {"curvature",
         std::string("diag"),
         "shape of the posterior: a precision for every weight; input: the second moments of each layer's inputs; "
         "kfac: those of its inputs times those of the gradients at its outputs",
         {},
         {"diag", "input", "kfac"}},
        {"lambda", 1.0, "weight of the prior: pull towards the global posterior, in its own metric", at_least(0.0)},
    };
    for (const auto& more :
         {only_with({"curvature", {"diag", "kfac"}}, epsilon_option()), only_with({"curvature", {"diag"}}, of_diag()),
          only_with({"curvature", {"kfac"}}, of_kfac()),
          only_with({"curvature", {"input", "kfac"}}, Layered::declared())}) {
      options.insert(options.end(), more.begin(), more.end());
    }
    return options;
  }

 private:
  static std::vector<Option> epsilon_option() {
    return {{"epsilon", 1e-10, "precision that a client has of what it never saw", above(0.0)}};
  }
  static std::vector<Option> of_diag() {
    std::vector<Option> options{
        {"gamma", 0.0, "floor under the global precision, wherever it is used; the same in every round", at_least(0.0)},
        {"fisher",
         std::string("online"),
         "online: squared gradients along the path, mixed with the prior by Eq. 17; "
         "offline: one pass at the final weights alone",
         {},
         {"online", "offline"}},
        {"gradient",
         std::string("minibatch"),
         "what is squared: the mean gradient of a mini-batch, or of each example",
         {},
         {"minibatch", "per_sample"}},
        {"aggregation",
         std::string("product"),
         "product of the Gaussians (Eq. 9), or the mixture collapsed to one (Eq. 6)",
         {},
         {"product", "mixture"}},
        {"compress", 1.0, "share of each layer's precision that is sent exactly, the rest as its mean (§3.5)",
         Range{.low = 0.0, .high = 1.0, .low_excluded = true}},
    };
    const auto product =
        only_with({"aggregation", {"product"}}, {{"zero_precision",
                                                  std::string("average"),
                                                  "where nobody is sure: average the clients, or shrink towards zero",
                                                  {},
                                                  {"average", "shrink"}}});
    options.insert(options.end(), product.begin(), product.end());
    return options;
  }
  static std::vector<Option> of_kfac() {
    return {
        {"output_ridge", 5.0, "added to the outputs' factor, as a multiple of its mean diagonal", above(0.0)},
        {"output_scale",
         std::string("unit"),
         "unit: clients' output factors count alike; measured: as large as their gradients were",
         {},
         {"unit", "measured"}},
        {"cg_steps", std::int64_t{20}, "conjugate gradients per layer, at most", at_least(0)},
    };
  }
};

class Fola final : public Method, private Posterior {
 public:
  explicit Fola(const MethodContext& context) : layout_(context.layout), options_(context) {}

  Schema schema() const override {
    using enum ChannelSpec::Bound;
    if (options_.mixture) {
      return {.channels = {{.name = "theta", .layout = layout_, .relative_to = "theta"},
                           {.name = kMoment, .layout = layout_, .bound = non_negative, .statistic = true}}};
    }
    // The Gaussian product: weights are summed times their precision, and their mean is taken over it.
    const auto bound = options_.shrink ? non_negative : positive;
    return {.channels = {{.name = kPrecision, .layout = layout_, .bound = bound, .statistic = true},
                         {.name = "theta", .layout = layout_, .relative_to = "theta", .times = kPrecision}}};
  }

  void start(State& state) const override { state.add(kPrecision, layout_, true, Flat(layout_->size(), 0.0f)); }

  void client(const ClientTask& task, Update& update) const override {
    task.load();
    const auto prior = task.broadcast.at(kPrecision), centre = task.broadcast.at("theta");
    Flat& precision = update[options_.mixture ? kMoment : kPrecision];
    const auto fisher = std::span(precision).first(layout_->trainable());
    const Flat metric = with_floor(prior);
    const LinearTerm term{.strength = static_cast<float>(options_.lambda), .precision = metric, .centre = centre};
    train(task, update, term, fisher);

    const auto r = static_cast<float>(task.round);
    if (options_.online) {
      for (std::size_t i = 0; i < fisher.size(); ++i) fisher[i] = fisher[i] / r + (r - 1.0f) / r * prior[i];  // Eq. 17
    }
    // What is measured, not trained, is averaged: everyone is equally sure of it.
    std::fill(precision.begin() + static_cast<std::ptrdiff_t>(fisher.size()), precision.end(), 1.0f);
    const auto segments = compress_precision(*layout_, options_.compress, precision);
    std::ranges::copy(task.model.parameters(), update["theta"].begin());
    options_.mixture ? finish_mixture(centre, update) : finish_product(segments, update);
  }

  void server(ServerTask& task) const override {
    options_.mixture ? serve_mixture(task) : serve_product(task);
    double sum = 0.0;
    for (const float p : task.state.at(kPrecision)) sum += p;
    task.metrics["precision_mean"] = sum / static_cast<double>(layout_->size()) + options_.gamma;
  }

  // The mixture's variance (Eq. 6) adds what one example leaves open to the spread of the clients' weights. Data shrink
  // the first alone, and the state no longer tells the two apart.
  const Posterior* posterior() const override { return options_.mixture ? nullptr : this; }

 private:
  // The product's precision P_S (Eq. 9) is the Fisher information of one example: all of them give examples·P_S.
  void draw(const State& state, const Draw& how, Stream& stream, std::span<float> theta) const override {
    const std::size_t trainable = layout_->trainable();
    const auto mean = state.at("theta"), fisher = state.at(kPrecision).first(trainable);
    const auto examples = static_cast<float>(how.examples), prior = static_cast<float>(how.prior_precision);
    Flat precision = with_floor(fisher);
    for (float& p : precision) p = examples * p + prior;
    std::ranges::copy(mean, theta.begin());
    gauss::sample({mean.first(trainable), precision}, static_cast<float>(std::sqrt(how.scale)), stream,
                  theta.first(trainable));
  }

  // The learnt precision with γ (Eq. 18), where it is used. The state keeps it without: through Eq. 17 γ would come
  // back every round and add up to γ(r+1)/2.
  Flat with_floor(std::span<const float> precision) const {
    Flat result(precision.begin(), precision.end());
    for (float& p : result) p += static_cast<float>(options_.gamma);
    return result;
  }

  void train(const ClientTask& task, Update& update, const LinearTerm& term, std::span<float> fisher) const {
    if (!options_.online) {
      task.train(update, term);
      measure_fisher(options_.gradient, task, fisher);  // Eq. 14
      return;
    }
    FisherMeter meter(options_.gradient, task.model, fisher);
    task.train(update, term, {.before_step = [&](std::span<const float> g, std::size_t n) { meter.add(g, n); }});
    meter.finish();  // Eq. 15
  }

  // From precision and weights to the channels that are summed.
  void finish_mixture(std::span<const float> centre, Update& update) const {
    const auto epsilon = static_cast<float>(options_.epsilon);
    const Flat& theta = update["theta"];
    Flat& moment = update[kMoment];
    for (std::size_t i = 0; i < theta.size(); ++i) {
      // Σ_n + μ_n² of Eq. 6, about the broadcast weights: about zero, a small Σ_n would drown in the rounding of μ_n².
      moment[i] = 1.0f / (moment[i] + epsilon) + (theta[i] - centre[i]) * (theta[i] - centre[i]);
    }
  }

  // μ = (ΣaPμ + εΣaμ)/(ΣaP + ε) is the product of Gaussians of precision P + ε.
  void finish_product(std::vector<SparseSegment> segments, Update& update) const {
    const auto added = options_.shrink ? 0.0f : static_cast<float>(options_.epsilon);
    Flat& precision = update[kPrecision];
    for (float& p : precision) p += added;
    for (auto& segment : segments) segment.rest += added;
    if (!segments.empty()) update.pack(kPrecision, pack_sparse(precision, segments));
  }

  void serve_product(ServerTask& task) const {
    if (options_.shrink) {
      for (double& p : task.sum.edit(kPrecision)) p += options_.epsilon * task.sum.weight();
    }
    task.move_theta(task.sum.take_mean("theta"));                 // μ_S, Eq. 9
    const FlatDouble precision = task.sum.take_mean(kPrecision);  // P_S, Eq. 9
    const auto state = task.state.at(kPrecision);
    for (std::size_t i = 0; i < state.size(); ++i) {
      // The ε of the solve is no knowledge: it does not stay in the posterior.
      state[i] = static_cast<float>(std::max(0.0, precision[i] - options_.epsilon));
    }
  }

  void serve_mixture(ServerTask& task) const {
    const FlatDouble mean = task.sum.take_mean("theta"), second = task.sum.take_mean(kMoment);
    const auto state = task.state.at(kPrecision), centre = task.state.at("theta");
    for (std::size_t i = 0; i < state.size(); ++i) {
      const double shift = mean[i] - centre[i];
      const double variance = std::max(second[i] - shift * shift, options_.epsilon);  // Eq. 6
      state[i] = static_cast<float>(1.0 / variance);
    }
    task.move_theta(mean);
  }

  std::shared_ptr<const Layout> layout_;
  FolaOptions options_;
};

}  // namespace

void add_fola(MethodRegistry& registry) {
  registry.add({.name = "fola",
                .summary = "Multiplies the clients' Gaussian posteriors (federated online Laplace approximation).",
                .source = "Liu & Zheng 2021",
                .options = FolaOptions::declared()},
               [](const MethodContext& context) -> std::unique_ptr<Method> {
                 const std::string& curvature = context.options.text("curvature");
                 if (curvature == "input") return make_input_fola(context);
                 if (curvature == "kfac") return make_kfac_fola(context);
                 return std::make_unique<Fola>(context);
               });
}

}  // namespace parley
