#include "parley/methods/fedec/fedec.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "parley/base/errors.h"
#include "parley/methods/aggregate.h"
#include "parley/methods/fedavg/fedavg.h"
#include "parley/methods/fedec/inference.h"
#include "parley/methods/fedec/weights.h"
#include "parley/methods/running_statistics.h"
#include "parley/methods/wrapper.h"

namespace parley {
namespace {

constexpr const char *kNetwork = "fedec", *kClasses = "class_distribution", *kInferences = "fedec_inferences";

enum class Weights { match, mass, elbo, size, uniform };

Weights weights_of(const std::string& name) {
  if (name == "match") return Weights::match;
  if (name == "mass") return Weights::mass;
  if (name == "elbo") return Weights::elbo;
  if (name == "size") return Weights::size;
  assert(name == "uniform");
  return Weights::uniform;
}

VarianceRule rule_of(const std::string& name) {
  if (name == "mean") return VarianceRule::mean;
  if (name == "pooled") return VarianceRule::pooled;
  if (name == "mixture") return VarianceRule::mixture;
  assert(name == "literal");
  return VarianceRule::literal;
}

InferenceOptions inference_options(const MethodContext& context) {
  const auto classes = static_cast<std::size_t>(context.options.integer("classes"));
  const bool mlp = context.options.text("decoder") == "mlp";
  return {.classes = classes > 0 ? classes : context.model.outputs(),
          .steps = static_cast<std::size_t>(context.options.integer("inference_steps")),
          .lr = context.options.real("inference_lr"),
          .kl = context.options.real("kl"),
          .hidden = mlp ? static_cast<std::size_t>(context.options.integer("decoder_hidden")) : 0,
          .simplex = context.options.text("weights") != "mass"};
}

// fedavg with FeDEC's rule for the running statistics, where the model has any.
std::unique_ptr<Method> averaging(const MethodContext& context) {
  auto method = make_averaging(context, 0.0);
  if (running_pairs(*context.layout).empty()) return method;
  return aggregate_running_statistics(std::move(method), *context.layout, rule_of(context.options.text("bn_variance")));
}

// Averages as the method inside does, with π in place of the clients' own weights.
class Reweighted : public MethodWrapper {
 public:
  using MethodWrapper::MethodWrapper;

  Schema schema() const override {
    Schema schema = method_->schema();
    for (auto& channel : schema.channels) channel.weighting = Weighting::each;
    return schema;
  }

  void server(ServerTask& task) const override {
    const auto singles = task.sum.singles();
    const std::vector<double> pi = weights(task);
    Sum sum(method_->schema());
    Update update;
    update.shape(method_->schema());
    for (std::size_t k = 0; k < singles.size(); ++k) {
      update.weight = pi[k];
      update.channels = singles[k].channels;
      sum.add(update);
    }
    ServerTask inner{.round = task.round, .clients = task.clients, .state = task.state, .sum = sum, .step = task.step};
    method_->server(inner);
    task.metrics.merge(inner.metrics);
    task.finished = inner.finished;
    double squares = 0.0;
    for (const double share : pi) squares += share * share;
    task.metrics["effective_clients"] = 1.0 / squares;
    task.metrics["weight_max"] = *std::ranges::max_element(pi);
  }

 private:
  // π for each of sum.singles(); sums to 1.
  virtual std::vector<double> weights(ServerTask& task) const = 0;
};

class Uniform final : public Reweighted {
 public:
  using Reweighted::Reweighted;

 private:
  std::vector<double> weights(ServerTask& task) const override {
    const std::size_t clients = task.sum.singles().size();
    return std::vector<double>(clients, 1.0 / static_cast<double>(clients));
  }
};

class Fedec final : public Reweighted {
 public:
  Fedec(std::unique_ptr<Method> averaging, const MethodContext& context, Weights weights)
      : Reweighted(std::move(averaging)),
        seed_(context.seed),
        rule_(weights),
        temperature_(context.options.real("temperature")),
        options_(inference_options(context)),
        means_(method_->schema().channel("running_mean")),
        vars_(method_->schema().channel("running_var")),
        inference_(options_, 2 * method_->schema().channels[means_].size),
        classes_layout_(std::make_shared<const Layout>(std::vector<LayoutEntry>{
            {"z", {static_cast<std::int64_t>(context.clients), static_cast<std::int64_t>(options_.classes)}}})) {}

  void start(State& state) const override {
    method_->start(state);
    state.add(kNetwork, inference_.layout(), false, Flat(inference_.layout()->size(), 0.0f));
    state.add(kClasses, classes_layout_, false, Flat(classes_layout_->size(), 0.0f));
    state.scalars[kInferences] = 0.0;
  }

 private:
  std::vector<double> weights(ServerTask& task) const override {
    const auto singles = task.sum.singles();
    const ClientRows moments = moments_of(singles);
    const auto network = task.state.at(kNetwork);
    Stream stream(seed_, "fedec", task.round);
    if (task.state.scalars[kInferences]++ == 0.0) {
      std::ranges::copy(inference_.initial(moments, stream), network.begin());
    }
    const Inferred inferred = inference_.infer(moments, network, stream);
    if (!std::ranges::all_of(inferred.z.values, [](double x) { return std::isfinite(x); })) {
      fail<RunError>(
          "round {}: the inference of class distributions diverged; lower method.inference_lr or use weights = "
          "\"size\"",
          task.round);
    }
    remember(singles, inferred.z, task.state.at(kClasses));
    task.metrics["reconstruction"] = inferred.reconstruction;
    return choose(singles, inferred);
  }

  std::vector<double> choose(std::span<const Single> singles, const Inferred& inferred) const {
    if (rule_ == Weights::mass) return mass_weights(inferred.z);
    if (rule_ == Weights::elbo) return elbo_weights(inferred.elbo, temperature_);
    const std::vector<double> uniform(options_.classes, 1.0 / static_cast<double>(options_.classes));
    std::vector<double> sizes;
    for (const auto& single : singles) sizes.push_back(single.weight);
    return match_weights(inferred.z, uniform, sizes);
  }

  // A row for each client: the mean and the raw second moment of every norm channel.
  ClientRows moments_of(std::span<const Single> singles) const {
    const std::size_t channels = singles.front().channels[means_].size();
    ClientRows moments{.columns = 2 * channels};
    for (const auto& single : singles) {
      const Flat &means = single.channels[means_], &vars = single.channels[vars_];
      moments.values.insert(moments.values.end(), means.begin(), means.end());
      for (std::size_t i = 0; i < channels; ++i) moments.values.push_back(vars[i] + double{means[i]} * means[i]);
    }
    return moments;
  }

  // Rows that sum to 1, whatever the latents.
  void remember(std::span<const Single> singles, const ClientRows& z, std::span<float> classes) const {
    for (std::size_t k = 0; k < singles.size(); ++k) {
      const auto row = z.row(k);
      const double total = std::accumulate(row.begin(), row.end(), 0.0);
      std::ranges::transform(row, classes.begin() + static_cast<std::ptrdiff_t>(singles[k].client * z.columns),
                             [&](double share) { return static_cast<float>(share / total); });
    }
  }

  std::uint64_t seed_;
  Weights rule_;
  double temperature_;
  InferenceOptions options_;
  std::size_t means_, vars_;  // channels of an update
  Inference inference_;
  std::shared_ptr<const Layout> classes_layout_;
};

std::unique_ptr<Method> make_fedec(const MethodContext& context) {
  require_own_aggregation("fedec", context, "set method.bn_variance, or use fedavg");
  const std::string& name = context.options.text("weights");
  const Weights weights = weights_of(name);
  auto method = averaging(context);
  if (weights == Weights::size) return method;
  if (weights == Weights::uniform) return std::make_unique<Uniform>(std::move(method));
  if (running_pairs(*context.layout).empty()) {
    fail(
        "method.weights = \"{}\": fedec infers them from running statistics, and the model has none (no batch norm); "
        "use \"size\" or \"uniform\", or a model with batch norm (lenet, cnn4, …)",
        name);
  }
  return std::make_unique<Fedec>(std::move(method), context, weights);
}

}  // namespace

void add_fedec(MethodRegistry& registry) {
  std::vector<Option> options = {
      {"weights",
       std::string("match"),
       "π: such that the clients' inferred class distributions add up to a uniform one; by the mass of unconstrained "
       "latents; by how well a client is explained; as server.weighting says; all alike",
       {},
       {"match", "mass", "elbo", "size", "uniform"}},
      {"bn_variance",
       std::string("pooled"),
       "running variances: Eq. 5 with weights that sum to 1; that of the mixture; Eq. 5 as printed; as everything else "
       "(FeDEC(w/o))",
       {},
       {"pooled", "mixture", "literal", "mean"}},
      {"temperature", 0.1, "τ of weights = \"elbo\"", above(0.0)},
  };
  std::ranges::copy(InferenceOptions::declared(), std::back_inserter(options));
  registry.add({.name = "fedec",
                .summary = "Infers what each client holds from its batch-norm statistics, weighs it by that, and "
                           "aggregates means and variances by rules of their own.",
                .source = "FeDEC, ICLR 2021 submission",
                .options = options},
               make_fedec);
}

}  // namespace parley
