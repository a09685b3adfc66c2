#include "parley/methods/laplace/laplace.h"

#include <algorithm>
#include <cmath>

#include "parley/base/errors.h"
#include "parley/methods/laplace/global_curvature.h"

namespace parley {
namespace {

constexpr const char *kGradient = "gradient", *kVelocity = "velocity", *kLoss = "loss";
// 1 in an update that has the fixed part of A; in the record of a client that has sent it.
constexpr const char* kSentFixed = "sent_fixed";
// Scalars of the state. `points` counts the rounds at one point, `rises` those in a row in which the loss rose by a
// hundredth or more.
constexpr const char *kDamping = "damping", *kPoints = "points", *kRises = "rises";
constexpr double kMostRises = 10.0, kRise = 1.01;

class Laplace final : public Method, private Posterior {
 public:
  explicit Laplace(const MethodContext& context)
      : layout_(context.layout),
        options_(context.options, context.server),
        matrices_(shown_layers(*layout_), options_.widest),
        rest_(*layout_, matrices_),
        curvature_(matrices_, rest_, options_) {
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
    return schema;
  }

  void start(State& state) const override {
    curvature_.start(state);
    state.add(kVelocity, layout_, false, Flat(layout_->size(), 0.0f));
    state.add_scalar(kDamping, false, options_.damping);
    for (const char* name : {kLoss, kPoints, kRises}) state.add_scalar(name, false, 0.0);
  }

  void client(const ClientTask& task, Update& update) const override {
    task.load();
    options_.warms_up(task.round) ? warm_client(task, update) : measure(task, update);
  }

  void server(ServerTask& task) const override { options_.warms_up(task.round) ? serve_warm(task) : serve_point(task); }

  const Posterior* posterior() const override { return this; }

 private:
  void draw(const State& state, const Draw& how, Stream& stream, std::span<float> theta) const override {
    curvature_.draw(state, how, stream, theta);
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

  void measure(const ClientTask& task, Update& update) const {
    const bool wanted = options_.sends_factors(task.round);
    const ClientRecord* record = task.memory.known();
    const bool sent = record != nullptr && record->contains(kSentFixed);
    const PointFactors factors{.inputs = channel(update, GlobalCurvature::kInputs),
                               .outputs = channel(update, GlobalCurvature::kOutputs),
                               .rest = channel(update, GlobalCurvature::kRest),
                               .first = sent ? curvature_.fixed_layers() : 0};
    const double loss =
        measure_point(task, matrices_, rest_, options_, channel(update, kGradient), wanted ? &factors : nullptr);
    update.scalar(kLoss) = loss;
    update.training = {loss * static_cast<double>(task.data.size()), task.data.size(), 1};
    if (!wanted) {
      leave_zero(update, {GlobalCurvature::kInputs, GlobalCurvature::kOutputs, GlobalCurvature::kRest});
      return;
    }
    if (!sent) mark_fixed_sent(task, update);
    if (has(update, GlobalCurvature::kInputs)) curvature_.pack(!sent, update);
  }

  // fola's structured product, about W: what is sent is small where little was learnt.
  void warm_client(const ClientTask& task, Update& update) const {
    task.train(update);
    const auto inputs = channel(update, GlobalCurvature::kInputs), moments = channel(update, kGradient);
    matrices_.measure_inputs(task, 0.0f, inputs);
    const auto before = task.broadcast.at("theta");
    std::ranges::copy(task.model.parameters(), moments.begin());
    for (std::size_t i = 0; i < layout_->trainable(); ++i) moments[i] -= before[i];
    Flat packed;
    matrices_.change_layers(moments, [&](const LayerMatrix& layer, std::span<float> w) {
      const auto own = layer.inputs_of(std::span<const float>(inputs));
      packed.assign(own.begin(), own.end());
      add_ridge(std::span(packed), layer.width());
      times_precision(w, layer.rows(), layer.width(), packed);
    });
    mark_fixed_sent(task, update);
    leave_zero(update, {GlobalCurvature::kOutputs, GlobalCurvature::kRest});
  }

  // `ridge` times the mean of the diagonal, on the diagonal. Linear in A: the mean of the clients' is that of the mean.
  template <class T>
  void add_ridge(std::span<T> packed, std::size_t width) const {
    T mean = 0;
    for (std::size_t i = 0; i < width; ++i) mean += packed[packed_size(i + 1) - 1] / static_cast<T>(width);
    for (std::size_t i = 0; i < width; ++i) packed[packed_size(i + 1) - 1] += static_cast<T>(options_.ridge) * mean;
  }

  void serve_warm(ServerTask& task) const {
    curvature_.merge_inputs(task.state, task.sum);
    FlatDouble inputs;
    if (matrices_.inputs_size() > 0) inputs = task.sum.take_mean(GlobalCurvature::kInputs);
    FlatDouble target = task.sum.take_mean(kGradient);
    std::vector<double> packed;
    matrices_.change_layers(std::span(target), [&](const LayerMatrix& layer, std::span<double> w) {
      const auto own = layer.inputs_of(std::span<const double>(inputs));
      packed.assign(own.begin(), own.end());
      add_ridge(std::span(packed), layer.width());
      if (!solve_mean(packed, layer.width(), layer.rows(), w)) {
        fail<RunError>("round {}: the inputs' moments of {} cannot be inverted; raise method.ridge", task.round,
                       layer.name());
      }
    });
    const auto theta = task.state.at("theta");
    for (std::size_t i = 0; i < layout_->trainable(); ++i) target[i] += static_cast<double>(theta[i]);
    task.move_theta(target);
  }

  void serve_point(ServerTask& task) const {
    double& points = task.state.scalar(kPoints);
    if (options_.sends_factors(task.round)) {
      curvature_.merge(task.state, task.sum, task.sum.scalar(kSentFixed),
                       points == 0.0 ? 0.0 : options_.factor_memory());
    }
    FlatDouble gradient = task.sum.take_mean(kGradient);
    const auto theta = std::as_const(task.state).at("theta");
    for (std::size_t i = 0; i < layout_->trainable(); ++i) {
      gradient[i] += options_.prior * static_cast<double>(theta[i]);
    }
    adapt_damping(task);
    precondition(task, gradient);
    take_step(task, options_.step_size(), gradient);
    points += 1.0;
  }

  // Levenberg–Marquardt on the loss at the broadcast weights, which is that of the last step. A velocity that led
  // upwards is dropped (O'Donoghue & Candès 2015).
  void adapt_damping(ServerTask& task) const {
    double &before = task.state.scalar(kLoss), &damping = task.state.scalar(kDamping),
           &rises = task.state.scalar(kRises);
    const double loss = task.sum.scalar(kLoss) / task.sum.weight();
    if (task.state.scalar(kPoints) > 0.0 && options_.adapts_damping()) {
      const bool rose = loss > before;
      damping = std::clamp(damping * (rose ? 3.0 : 0.5), std::min(options_.damping, options_.damping_floor),
                           std::max(options_.damping, options_.damping_cap));
      if (rose) std::ranges::fill(task.state.at(kVelocity), 0.0f);
      // The prior's pull may raise the loss by a little, round after round; that is no failure.
      rises = loss > kRise * before ? rises + 1.0 : 0.0;
    }
    before = loss;
    task.metrics["damping"] = damping;
    if (rises >= kMostRises) {
      fail<RunError>("round {}: the loss has risen for {} rounds; lower method.step or raise method.damping",
                     task.round, kMostRises);
    }
  }

  // (curvature + d)⁻¹·gradient. Factors that are not positive definite with this damping are given ten times as much.
  void precondition(ServerTask& task, std::span<double> gradient) const {
    constexpr double kLeast = 1e-8;
    const std::vector<double> before(gradient.begin(), gradient.end());
    double damping = task.state.scalar(kDamping) + options_.prior;
    while (const LayerMatrix* failed = curvature_.precondition(task.state, damping, gradient)) {
      damping = std::max(kLeast, 10.0 * damping);
      if (damping > std::max(options_.damping, options_.damping_cap)) {
        fail<RunError>("round {}: the factors of {} are not positive definite; raise method.damping", task.round,
                       failed->name());
      }
      std::ranges::copy(before, gradient.begin());
    }
  }

  // V ← mV − η·direction, W ← W + V. What is measured, behind what is trained, is in `direction` already.
  void take_step(ServerTask& task, double step, std::span<double> direction) const {
    const std::size_t trainable = layout_->trainable();
    const auto velocity = task.state.at(kVelocity), theta = task.state.at("theta");
    std::vector<double> v(layout_->size(), 0.0);
    for (std::size_t i = 0; i < trainable; ++i) {
      v[i] = options_.momentum * static_cast<double>(velocity[i]) - step * direction[i];
    }
    const double kl = curvature_.predicted_kl(task.state, v);
    const double shrink = options_.trust > 0.0 && kl > options_.trust ? std::sqrt(options_.trust / kl) : 1.0;
    for (std::size_t i = 0; i < trainable; ++i) {
      velocity[i] = static_cast<float>(shrink * v[i]);
      direction[i] = static_cast<double>(theta[i]) + shrink * v[i];
    }
    task.metrics["predicted_kl"] = shrink * shrink * kl;
    task.move_theta(direction);
  }

  std::shared_ptr<const Layout> layout_;
  LaplaceOptions options_;
  LayerMatrices matrices_;
  RestOfModel rest_;
  GlobalCurvature curvature_;
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
