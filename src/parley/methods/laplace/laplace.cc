#include "parley/methods/laplace/laplace.h"

#include <algorithm>
#include <cmath>

#include "parley/base/errors.h"
#include "parley/methods/laplace/agreement.h"
#include "parley/methods/laplace/descent.h"
#include "parley/methods/laplace/own_model.h"

namespace parley {
namespace {

constexpr const char *kGradient = "gradient", *kLoss = Descent::kLoss;
// 1 in an update that has the fixed part of A; in the record of a client that has sent it.
constexpr const char* kSentFixed = "sent_fixed";

class Laplace final : public Method, private Posterior, private Personal {
 public:
  explicit Laplace(const MethodContext& context)
      : layout_(context.layout),
        options_(context.options, context.server, context.examples),
        examples_(static_cast<double>(context.examples)),
        matrices_(shown_layers(*layout_), options_.widest,
                  [this](std::size_t width) { return options_.rank_of(width); }),
        rest_(*layout_, matrices_),
        curvature_(matrices_, rest_, options_),
        own_model_(matrices_, rest_, options_),
        search_(options_, curvature_.convolves()),
        descent_(layout_, curvature_, search_, options_),
        agreement_(options_) {
    if (options_.fisher == FisherLabels::exact && rest_.size > 0) {
      fail("method.fisher = \"exact\": {} is in no dense or convolutional layer; use \"sampled\"",
           rest_.entries.front().name);
    }
  }

  // In warm rounds `gradient` has (W_n − W)(A_n + ρI) in the places of layers, W_n − W in those of the rest. Running
  // statistics stand behind what is trained.
  Schema schema() const override {
    Schema schema{.channels = {{.name = kGradient, .layout = layout_}}, .scalars = {{kLoss}, {kSentFixed}}};
    for (auto& channel : curvature_.channels()) schema.channels.push_back(std::move(channel));
    for (auto& channel : agreement_.channels()) schema.channels.push_back(std::move(channel));
    for (auto& scalar : agreement_.scalars()) schema.scalars.push_back(std::move(scalar));
    for (auto& scalar : search_.scalars()) schema.scalars.push_back(std::move(scalar));
    return schema;
  }

  void start(State& state) const override {
    curvature_.start(state);
    own_model_.start(state);
    descent_.start(state);
    agreement_.start(state);
  }

  void client(const ClientTask& task, Update& update) const override {
    task.load();
    if (search_.searching(task.broadcast)) return search(task, update);
    trains_in(task.broadcast) ? warm_client(task, update) : measure(task, update);
  }

  void server(ServerTask& task) const override {
    if (search_.searching(task.state)) return descent_.finish_search(task);
    trains_in(task.state) ? serve_warm(task) : serve_point(task);
  }

  const Posterior* posterior() const override { return this; }
  const Personal* personal() const override { return options_.personal_steps > 0 ? this : nullptr; }

 private:
  void draw(const State& state, const Draw& how, Stream& stream, std::span<float> theta) const override {
    Draw own = how;
    if (options_.evidence) own.prior_precision = how.examples * state.scalar(Descent::kPrior);
    curvature_.draw(state, own, stream, theta);
  }

  void load_own(const ClientTask& task, std::size_t /*network*/) const override {
    if (!trains_in(task.broadcast)) own_model_.load(task);
  }

  // Whether this is a warm round.
  static bool trains_in(const auto& state) { return state.scalar(Agreement::kWarming) != 0.0; }
  // Whether a client has sent the fixed part of A before.
  static bool has_sent(const ClientTask& task) {
    const ClientRecord* record = task.memory.known();
    return record != nullptr && record->contains(kSentFixed);
  }
  static bool has(const Update& update, const char* name) {
    return std::ranges::any_of(update.schema().channels, [&](const ChannelSpec& spec) { return spec.name == name; });
  }
  // A channel of the update; empty where the schema has none of this name.
  static std::span<float> channel(Update& update, const char* name) {
    return has(update, name) ? std::span<float>(update[name]) : std::span<float>();
  }
  // Nothing of these was measured.
  static void leave_zero(Update& update, std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (has(update, name)) update.pack(name, pack_constant(0.0f));
    }
  }
  void mark_fixed_sent(const ClientTask& task, Update& update) const {
    update.scalar(kSentFixed) = 1.0;
    if (curvature_.fixed_layers() > 0) task.memory.amend({{kSentFixed, Flat{1.0f}}});
  }

  void search(const ClientTask& task, Update& update) const {
    search_.measure(task, update);
    agreement_.leave_out(update);
    leave_zero(update, {kGradient, GlobalCurvature::kInputs, GlobalCurvature::kOutputs, GlobalCurvature::kRest});
  }

  void measure(const ClientTask& task, Update& update) const {
    const bool wanted = options_.sends_factors(task.broadcast.scalar(Descent::kPoints)), sent = has_sent(task);
    const PointFactors factors{.inputs = channel(update, GlobalCurvature::kInputs),
                               .outputs = channel(update, GlobalCurvature::kOutputs),
                               .rest = channel(update, GlobalCurvature::kRest),
                               .first = sent && options_.local_steps == 1 ? curvature_.fixed_layers() : 0};
    const double loss =
        measure_point(task, matrices_, rest_, options_, channel(update, kGradient), wanted ? &factors : nullptr);
    update.scalar(kLoss) = loss;
    update.training = {loss * static_cast<double>(task.data.size()), task.data.size(), 1};
    agreement_.leave_out(update);
    if (!wanted) {
      leave_zero(update, {GlobalCurvature::kInputs, GlobalCurvature::kOutputs, GlobalCurvature::kRest});
      return;
    }
    if (options_.local_steps > 1) go_on(task, factors, channel(update, kGradient));
    if (!sent) mark_fixed_sent(task, update);
    curvature_.pack_inputs(!sent, options_.factor_bits, update);
    curvature_.pack_outputs(options_.factor_bits, update);
  }

  // FedPM (Ishii et al. 2025): further steps in the client's own metric P. The clients' product Σ P_n (W_n − W) is then
  // the sum of the gradients on the way, each as its step was scaled; that is what is sent.
  void go_on(const ClientTask& task, const PointFactors& own, std::span<float> gradient) const {
    const CurvatureView curvature{.inputs = own.inputs, .outputs = own.outputs, .rest = own.rest};
    const auto weights = task.model.parameters().first(layout_->trainable());
    Flat here(gradient.begin(), gradient.end());
    std::vector<double> step(weights.size());
    double first = 0.0;
    for (std::size_t k = 0; k < options_.local_steps; ++k) {
      if (k > 0) measure_point(task, matrices_, rest_, options_, here, nullptr);
      for (std::size_t i = 0; i < step.size(); ++i) {
        step[i] = static_cast<double>(here[i]) + options_.prior * static_cast<double>(weights[i]);
      }
      const std::span<double> alone[] = {step};
      if (curvature_.precondition(curvature, options_.damping + options_.prior, alone) != nullptr) {
        fail<RefusedUpdate>("the client's own factors are not positive definite; raise method.damping");
      }
      const double eta = options_.step_size();
      const double scale = eta * shrink_to(options_.trust, eta * eta * curvature_.predicted_kl(curvature, step));
      if (k == 0) first = scale;
      for (std::size_t i = 0; i < step.size(); ++i) {
        if (k > 0) gradient[i] += static_cast<float>(scale / first) * here[i];
        weights[i] -= static_cast<float>(scale * step[i]);
      }
    }
  }

  // fola's structured product, about W: what is sent is small where little was learnt.
  void warm_client(const ClientTask& task, Update& update) const {
    task.train(update);
    const auto inputs = channel(update, GlobalCurvature::kInputs), moments = channel(update, kGradient);
    const InputSums sums = warm_inputs(task, inputs);
    // The product needs the very A that the server will have.
    curvature_.pack_inputs(true, options_.warm_bits(), update);
    const auto before = task.broadcast.at("theta");
    std::ranges::copy(task.model.parameters(), moments.begin());
    for (std::size_t i = 0; i < layout_->trainable(); ++i) moments[i] -= before[i];
    agreement_.measure(moments.first(layout_->trainable()), update);
    Flat packed;
    matrices_.change_layers(moments, [&](const LayerMatrix& layer, std::span<float> w) {
      const auto own = layer.inputs_of(std::span<const float>(inputs));
      if (layer.rank > 0) return times_sketched(sums, layer, own, w);
      packed.assign(own.begin(), own.end());
      add_ridge(std::span(packed), layer.width());
      times_precision(w, layer.rows(), layer.width(), packed);
    });
    // Of another cohort the mean of what was ever sent would be too rough for the product.
    if (has_sent(task) && options_.participation == 1.0) {
      curvature_.pack_inputs(false, options_.warm_bits(), update);
    } else {
      mark_fixed_sent(task, update);
    }
    leave_zero(update, {GlobalCurvature::kOutputs, GlobalCurvature::kRest});
  }

  // A of the client's data. Of wide layers the sketch is all that is kept, so (W_n − W)A_n is measured by the same
  // pass.
  InputSums warm_inputs(const ClientTask& task, std::span<float> inputs) const {
    InputSums sums(matrices_);
    Flat before, step;
    for (const auto& layer : matrices_.all()) {
      if (layer.rank == 0) continue;
      layer.gather(task.broadcast.at("theta"), before);
      layer.gather(std::span<const float>(task.model.parameters()), step);
      for (std::size_t i = 0; i < step.size(); ++i) step[i] -= before[i];
      sums.ask_product(layer, step);
    }
    matrices_.measure_inputs(task, sums);
    sums.write(0.0f, inputs);
    return sums;
  }

  // From W_n − W to its product with A_n + ρI, of a layer that is sketched.
  void times_sketched(const InputSums& sums, const LayerMatrix& layer, std::span<const float> sketch,
                      std::span<float> w) const {
    const float ridge = static_cast<float>(options_.ridge) * sketch.back() / static_cast<float>(layer.width());
    const Flat step(w.begin(), w.end());
    sums.take_product(layer, w);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] += ridge * step[i];
  }

  // Back from the mean of such products, with the mean A; false where A + ρI is not positive.
  bool solve(const LayerMatrix& layer, std::span<const double> mean, std::span<double> w) const {
    if (layer.rank == 0) {
      std::vector<double> packed(mean.begin(), mean.end());
      add_ridge(std::span(packed), layer.width());
      return solve_mean(packed, layer.width(), layer.rows(), w);
    }
    const std::vector<float> sketch(mean.begin(), mean.end());
    const SketchedMatrix a(sketch, layer.width(), layer.rank);
    const double ridge = options_.ridge * a.trace() / static_cast<double>(layer.width());
    if (!(a.rest() + ridge > 0.0)) return false;
    a.multiply([&](double value) { return 1.0 / (value + ridge); }, layer.rows(), w);
    return true;
  }

  // `ridge` times the mean of the diagonal, on the diagonal. Linear in A: the mean of the clients' is that of the mean.
  template <class T>
  void add_ridge(std::span<T> packed, std::size_t width) const {
    T mean = 0;
    for (std::size_t i = 0; i < width; ++i) mean += packed[packed_size(i + 1) - 1] / static_cast<T>(width);
    for (std::size_t i = 0; i < width; ++i) packed[packed_size(i + 1) - 1] += static_cast<T>(options_.ridge) * mean;
  }

  void serve_warm(ServerTask& task) const {
    agreement_.judge(task);
    const FlatDouble inputs = curvature_.merge_inputs(task.state, task.sum, task.sum.scalar(kSentFixed));
    own_model_.send(task.state);
    FlatDouble target = task.sum.take_mean(kGradient);
    matrices_.change_layers(std::span(target), [&](const LayerMatrix& layer, std::span<double> w) {
      if (!solve(layer, layer.inputs_of(std::span<const double>(inputs)), w)) {
        fail<RunError>("round {}: the inputs' moments of {} cannot be inverted; raise method.ridge", task.round,
                       layer.name());
      }
    });
    const auto theta = task.state.at("theta");
    for (std::size_t i = 0; i < layout_->trainable(); ++i) target[i] += static_cast<double>(theta[i]);
    task.move_theta(target);
  }

  void serve_point(ServerTask& task) const {
    const double points = task.state.scalar(Descent::kPoints);
    if (options_.sends_factors(points)) {
      const bool first = points == 0.0;
      curvature_.merge(task.state, task.sum, task.sum.scalar(kSentFixed), first ? 0.0 : options_.factor_memory());
      own_model_.send(task.state);
      if (options_.evidence) descent_.choose_prior(task, examples_);
    }
    descent_.step(task, task.sum.take_mean(kGradient));
  }

  std::shared_ptr<const Layout> layout_;
  LaplaceOptions options_;
  double examples_;  // of all clients
  LayerMatrices matrices_;
  RestOfModel rest_;
  GlobalCurvature curvature_;
  OwnModel own_model_;
  LineSearch search_;
  Descent descent_;
  Agreement agreement_;
};

}  // namespace

void add_laplace(MethodRegistry& registry) {
  registry.add(
      {.name = "laplace",
       .summary = "Multiplies the clients' Laplace posteriors at one point: a Newton-like step on pooled curvature.",
       .source = "after Martens & Grosse 2015, Ritter et al. 2018",
       .options = LaplaceOptions::declared()},
      [](const MethodContext& context) { return std::make_unique<Laplace>(context); });
}

}  // namespace parley
