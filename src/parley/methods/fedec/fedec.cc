#include "parley/methods/fedec/fedec.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

#include "parley/base/errors.h"
#include "parley/methods/aggregate.h"
#include "parley/methods/fedavg/fedavg.h"
#include "parley/methods/fedec/inference.h"
#include "parley/methods/fedec/reports.h"
#include "parley/methods/fedec/weights.h"
#include "parley/methods/running_statistics.h"
#include "parley/methods/wrapper.h"

namespace parley {
namespace {

constexpr const char *kNetwork = "fedec", *kClasses = "class_distribution", *kReports = "fedec_reports";
// What the rule for the running statistics sends.
constexpr const char *kMeans = "running_mean", *kVars = "running_var";
// What clients report besides: the moments of their norms' inputs at the broadcast model; or what they hold.
constexpr const char *kMoments = "fedec_moments", *kTold = "told_classes";
constexpr const char* kHeard = "fedec_heard";  // the round of each client's last report; 0: none

enum class Weights { match, elbo, size, uniform };

Weights weights_of(const std::string& name) {
  if (name == "match") return Weights::match;
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
  return {.classes = classes > 0 ? classes : context.task.outputs,
          .steps = static_cast<std::size_t>(context.options.integer("inference_steps")),
          .lr = context.options.real("inference_lr"),
          .kl = context.options.real("kl"),
          .hidden = mlp ? static_cast<std::size_t>(context.options.integer("decoder_hidden")) : 0};
}

// fedavg with FeDEC's rule for the running statistics, where the model has any.
std::unique_ptr<Method> averaging(const MethodContext& context) {
  auto method = make_averaging(context, 0.0);
  const std::string& name = context.options.text("bn_variance");
  const VarianceRule rule = rule_of(name);
  if (!running_pairs(*context.layout).empty()) {
    return aggregate_running_statistics(std::move(method), *context.layout, rule);
  }
  if (rule == VarianceRule::mixture || rule == VarianceRule::literal) {
    fail("method.bn_variance = \"{}\": the model has no running variances (no batch norm); use \"mean\"", name);
  }
  return method;
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
    const SharedSchema schema = share(method_->schema());
    Sum sum(schema);
    Update update(schema);
    for (std::size_t k = 0; k < singles.size(); ++k) {
      update.weight = pi[k];
      for (const auto& spec : schema->channels) update[spec.name] = singles[k][spec.name];
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

std::vector<double> match_uniform(const ClientRows& z, std::span<const Single> singles) {
  const std::vector<double> uniform(z.columns, 1.0 / static_cast<double>(z.columns));
  std::vector<double> sizes;
  for (const auto& single : singles) sizes.push_back(single.weight);
  return match_weights(z, uniform, sizes);
}

// Clients tell what they hold: what matching would do if the inference never erred. For study; it is what FeDEC spares
// them to say.
class TrueMatch final : public Reweighted {
 public:
  TrueMatch(std::unique_ptr<Method> averaging, std::size_t classes)
      : Reweighted(std::move(averaging)), classes_(classes) {}

  Schema schema() const override {
    Schema schema = Reweighted::schema();
    schema.channels.push_back({.name = kTold,
                               .count = classes_,
                               .weighting = Weighting::each,
                               .bound = ChannelSpec::Bound::non_negative,
                               .statistic = true});
    return schema;
  }

  void client(const ClientTask& task, Update& update) const override {
    method_->client(task, update);
    Flat& shares = update[kTold];
    for (const auto row : task.data.rows) {
      shares[static_cast<std::size_t>(task.data.data->labels[row])] += 1.0f / static_cast<float>(task.data.size());
    }
  }

 private:
  std::vector<double> weights(ServerTask& task) const override {
    ClientRows z{.columns = classes_};
    for (const auto& single : task.sum.singles()) {
      z.values.insert(z.values.end(), single[kTold].begin(), single[kTold].end());
    }
    return match_uniform(z, task.sum.singles());
  }

  std::size_t classes_;
};

class Fedec final : public Reweighted {
 public:
  Fedec(std::unique_ptr<Method> averaging, const MethodContext& context, Weights weights)
      : Reweighted(std::move(averaging)),
        seed_(context.seed),
        holders_(context.holders()),
        rule_(weights),
        temperature_(context.options.real("temperature")),
        report_rounds_(static_cast<std::size_t>(context.options.integer("report_rounds"))),
        norms_(*context.layout),
        options_(inference_options(context)),
        inference_(options_, moments()),
        classes_layout_(std::make_shared<const Layout>(std::vector<LayoutEntry>{
            {"z", {static_cast<std::int64_t>(context.clients), static_cast<std::int64_t>(options_.classes)}}})),
        reports_layout_(std::make_shared<const Layout>(std::vector<LayoutEntry>{
            {"moments", {static_cast<std::int64_t>(context.clients), static_cast<std::int64_t>(moments())}}})),
        heard_layout_(std::make_shared<const Layout>(
            std::vector<LayoutEntry>{{"round", {static_cast<std::int64_t>(context.clients)}}})) {}

  Schema schema() const override {
    Schema schema = Reweighted::schema();
    if (norms_.size() > 0) {
      schema.channels.push_back(
          {.name = kMoments, .count = norms_.size(), .weighting = Weighting::each, .statistic = true});
    }
    return schema;
  }

  void client(const ClientTask& task, Update& update) const override {
    if (norms_.size() > 0) {
      task.load();
      norms_.measure(task, update[kMoments]);
    }
    method_->client(task, update);
  }

  void start(State& state) const override {
    method_->start(state);
    state.add(kNetwork, inference_.layout(), false, Flat(inference_.layout()->size(), 0.0f));
    state.add(kClasses, classes_layout_, false, Flat(classes_layout_->size(), 0.0f));
    if (keeps_reports()) state.add(kReports, reports_layout_, false, Flat(reports_layout_->size(), 0.0f));
    state.add(kHeard, heard_layout_, false, Flat(heard_layout_->size(), 0.0f));
  }

  std::string class_distribution() const override { return kClasses; }

 private:
  // A report that counts for its own round alone is not kept: the moments of a million clients would fill a gigabyte.
  bool keeps_reports() const { return report_rounds_ > 1; }

  // Where no norm follows a layer that the model shows, its running statistics have to do.
  std::size_t moments() const {
    if (norms_.size() > 0) return norms_.size();
    const Schema schema = method_->schema();
    return 2 * schema.channels[schema.channel(kMeans)].size();
  }

  std::vector<double> weights(ServerTask& task) const override {
    const auto singles = task.sum.singles();
    const Reports reports = collect(singles, task.round, task.state);
    const auto network = task.state.at(kNetwork);
    Stream stream(seed_, "fedec", task.round);
    // Until it has heard enough clients to know the corners by, it looks for them anew.
    if (reports.before < std::min(holders_, 2 * options_.classes)) {
      std::ranges::copy(inference_.initial(reports.moments, stream), network.begin());
    }
    Inferred inferred = inference_.infer(reports.moments, network, stream);
    if (!std::ranges::all_of(inferred.z.values, [](double x) { return std::isfinite(x); })) {
      fail<RunError>(
          "round {}: the inference of class distributions diverged; lower method.inference_lr or use weights = "
          "\"size\"",
          task.round);
    }
    remember(reports, inferred.z, task.round, singles.size(), task.state);
    task.metrics["reconstruction"] = inferred.reconstruction;
    inferred.z.values.resize(singles.size() * inferred.z.columns);  // those that are weighted now
    inferred.elbo.resize(singles.size());
    return choose(singles, inferred);
  }

  std::vector<double> choose(std::span<const Single> singles, const Inferred& inferred) const {
    if (rule_ == Weights::elbo) return elbo_weights(inferred.elbo, temperature_);
    return match_uniform(inferred.z, singles);
  }

  // The mean and the raw second moment of every norm channel, from each client of this round; and, with report_rounds,
  // from those who reported so lately that the model can be taken for the same.
  struct Reports {
    std::vector<std::size_t> clients;  // this round's, in the order of the cohort, then the others
    ClientRows moments;
    std::size_t before = 0;  // clients that had reported earlier
  };

  void add_report(const Single& single, std::vector<double>& values) const {
    if (norms_.size() > 0) {
      const Flat& moments = single[kMoments];
      values.insert(values.end(), moments.begin(), moments.end());
      return;
    }
    const Flat &means = single[kMeans], &vars = single[kVars];
    values.insert(values.end(), means.begin(), means.end());
    for (std::size_t i = 0; i < means.size(); ++i) values.push_back(vars[i] + double{means[i]} * means[i]);
  }

  Reports collect(std::span<const Single> singles, std::size_t round, const State& state) const {
    Reports reports{.moments = {.columns = moments()}};
    auto& values = reports.moments.values;
    const std::size_t width = reports.moments.columns;
    for (const auto& single : singles) {
      add_report(single, values);
      reports.clients.push_back(single.client);
    }
    std::vector<std::size_t> now = reports.clients;
    std::ranges::sort(now);
    const auto heard = state.at(kHeard);
    for (std::size_t k = 0; k < heard.size(); ++k) {
      if (heard[k] == 0.0f) continue;
      ++reports.before;
      if (round - static_cast<std::size_t>(heard[k]) >= report_rounds_ || std::ranges::binary_search(now, k)) continue;
      const auto row = state.at(kReports).subspan(k * width, width);
      values.insert(values.end(), row.begin(), row.end());
      reports.clients.push_back(k);
    }
    return reports;
  }

  // Class distributions sum to 1, whatever the latents.
  void remember(const Reports& reports, const ClientRows& z, std::size_t round, std::size_t cohort,
                State& state) const {
    const auto classes = state.at(kClasses), heard = state.at(kHeard);
    for (std::size_t k = 0; k < cohort; ++k) heard[reports.clients[k]] = static_cast<float>(round);
    const auto to_float = [](double x) { return static_cast<float>(x); };
    for (std::size_t k = 0; k < reports.clients.size(); ++k) {
      const auto row = z.row(k);
      const double total = std::accumulate(row.begin(), row.end(), 0.0);
      const auto at = static_cast<std::ptrdiff_t>(reports.clients[k]);
      std::ranges::transform(row, classes.begin() + at * static_cast<std::ptrdiff_t>(z.columns), [&](double share) {
        return std::max(to_float(share / total), std::numeric_limits<float>::min());
      });
      if (!keeps_reports()) continue;
      std::ranges::transform(reports.moments.row(k),
                             state.at(kReports).begin() + at * static_cast<std::ptrdiff_t>(reports.moments.columns),
                             to_float);
    }
  }

  std::uint64_t seed_;
  std::size_t holders_;
  Weights rule_;
  double temperature_;
  std::size_t report_rounds_;
  NormReports norms_;
  InferenceOptions options_;
  Inference inference_;
  std::shared_ptr<const Layout> classes_layout_, reports_layout_, heard_layout_;
};

std::unique_ptr<Method> make_fedec(const MethodContext& context) {
  require_own_aggregation("fedec", context, "set method.bn_variance, or use fedavg");
  const std::string& name = context.options.text("weights");
  const Weights weights = weights_of(name);
  auto method = averaging(context);
  if (weights == Weights::size) return method;
  if (weights == Weights::uniform) return std::make_unique<Uniform>(std::move(method));
  if (weights == Weights::match && context.options.text("classes_from") == "labels") {
    if (context.task.loss != Loss::cross_entropy) fail("method.classes_from = \"labels\": the data have no classes");
    return std::make_unique<TrueMatch>(std::move(method), context.task.outputs);
  }
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
       "π: such that the clients' inferred class distributions add up to a uniform one; by how well a client is "
       "explained; as server.weighting says; all alike",
       {},
       {"match", "elbo", "size", "uniform"}},
      {"bn_variance",
       std::string("pooled"),
       "running variances: Eq. 5 with weights that sum to 1; that of the mixture; Eq. 5 as printed; as everything else "
       "(FeDEC(w/o))",
       {},
       {"pooled", "mixture", "literal", "mean"}},
  };
  const OnlyWith elbo{"weights", {"elbo"}}, match{"weights", {"match"}}, inferred{"weights", {"match", "elbo"}};
  std::ranges::copy(only_with(match, {{"classes_from",
                                       std::string("reports"),
                                       "class distributions: inferred from the clients' reports; or told by clients, "
                                       "from their labels, to see what matching does without the inference's error",
                                       {},
                                       {"reports", "labels"}}}),
                    std::back_inserter(options));
  std::ranges::copy(
      only_with(inferred, {{"report_rounds", std::int64_t{1},
                            "rounds that a report counts for; older ones are of an older model. More than 1 where a "
                            "round's cohort is too small to tell classes apart by",
                            at_least(1)}}),
      std::back_inserter(options));
  std::ranges::copy(only_with(elbo, {{"temperature", 0.1, "τ of the weights", above(0.0)}}),
                    std::back_inserter(options));
  std::ranges::copy(only_with(inferred, InferenceOptions::declared()), std::back_inserter(options));
  registry.add({.name = "fedec",
                .summary = "Infers what each client holds from its batch-norm statistics, weighs it by that, and "
                           "aggregates means and variances by rules of their own.",
                .source = "FeDEC, ICLR 2021 submission",
                .options = options,
                .needs = {{"model.norm", std::string("batch")}}},
               make_fedec);
}

}  // namespace parley
