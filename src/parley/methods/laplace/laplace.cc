#include "parley/methods/laplace/laplace.h"

#include <algorithm>
#include <cmath>

#include "parley/base/errors.h"
#include "parley/methods/laplace/global_curvature.h"
#include "parley/methods/laplace/secants.h"

namespace parley {
namespace {

constexpr const char *kGradient = "gradient", *kVelocity = "velocity", *kLoss = "loss";
// 1 in an update that has the fixed part of A; in the record of a client that has sent it.
constexpr const char* kSentFixed = "sent_fixed";
// Scalars of the state. `points` counts the rounds at one point, `rises` those in a row in which the loss rose by a
// hundredth or more; `weight` is what the last round's clients weighed, `objective` their loss with the prior's share.
constexpr const char *kDamping = "damping", *kPoints = "points", *kRises = "rises", *kWeight = "weight",
                     *kObjective = "objective";
// The last layer's A and B, for clients that make a model of their own from it.
constexpr const char *kLastInputs = "last_inputs", *kLastOutputs = "last_outputs";
constexpr double kMostRises = 10.0, kRise = 1.01;

class Laplace final : public Method, private Posterior, private Personal {
 public:
  explicit Laplace(const MethodContext& context)
      : layout_(context.layout),
        options_(context.options, context.server),
        matrices_(shown_layers(*layout_), options_.widest),
        rest_(*layout_, matrices_),
        curvature_(matrices_, rest_, options_),
        secants_(layout_, options_.uses_secants() ? options_.secants : 0) {
    if (options_.fisher == FisherLabels::exact && rest_.size > 0) {
      fail("method.fisher = \"exact\": {} is in no dense or convolutional layer; use \"sampled\"",
           rest_.entries.front().name);
    }
    if (options_.personal_steps > 0 && matrices_.all().empty()) {
      fail("method.personal_steps = {}: the model shows no dense or convolutional layer; use 0",
           options_.personal_steps);
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
    for (const char* name : {kLoss, kPoints, kRises, kWeight, kObjective}) {
      state.add_scalar(name, false, 0.0);
    }
    if (options_.personal_steps > 0) {
      for (const auto& [name, width] :
           {std::pair(kLastInputs, last_layer().width()), {kLastOutputs, last_layer().rows()}}) {
        const LayoutEntry entry{.name = last_layer().name(), .shape = {static_cast<std::int64_t>(packed_size(width))}};
        state.add(name, std::make_shared<const Layout>(std::vector{entry}), true, Flat(packed_size(width), 0.0f));
      }
    }
    secants_.start(state);
    if (secants_.any()) state.add(kGradient, layout_, false, Flat(layout_->size(), 0.0f));
  }

  void client(const ClientTask& task, Update& update) const override {
    task.load();
    options_.warms_up(task.round) ? warm_client(task, update) : measure(task, update);
  }

  void server(ServerTask& task) const override { options_.warms_up(task.round) ? serve_warm(task) : serve_point(task); }

  const Posterior* posterior() const override { return this; }
  const Personal* personal() const override { return options_.personal_steps > 0 ? this : nullptr; }

 private:
  void draw(const State& state, const Draw& how, Stream& stream, std::span<float> theta) const override {
    curvature_.draw(state, how, stream, theta);
  }

  const LayerMatrix& last_layer() const { return matrices_.all().back(); }

  // The product of the posterior and the client's own data, once more: natural steps of the last layer, where the
  // curvature is nearly exact. Warm rounds have left a model of its own already.
  void load_own(const ClientTask& task, std::size_t /*network*/) const override {
    if (options_.warms_up(task.round)) return;
    task.load();
    const LayerMatrix& layer = last_layer();
    const FisherFactors factors{.rows = layer.rows(),
                                .width = layer.width(),
                                .inputs = task.broadcast.at(kLastInputs),
                                .outputs = task.broadcast.at(kLastOutputs)};
    Flat gradient(layout_->size());
    std::vector<double> step;
    for (std::size_t k = 0; k < options_.personal_steps; ++k) {
      measure_point(task, matrices_, rest_, options_, gradient, nullptr);
      layer.gather(std::span<const float>(gradient), step);
      const std::span<double> alone[] = {step};
      // Nothing is known of it before the first factors: the shared model, then.
      if (!parley::precondition(factors, options_.damping + options_.prior, alone)) return;
      const double scale = -trusted(0.5 * fisher_norm(factors, step), options_.trust);
      matrices_.change_layers(task.model.parameters(), [&](const LayerMatrix& other, std::span<float> w) {
        if (&other != &layer) return;
        for (std::size_t i = 0; i < w.size(); ++i) w[i] += static_cast<float>(scale * step[i]);
      });
    }
  }

  // By what a step of this KL divergence must be scaled to keep to a limit; 0: none.
  static double trusted(double kl, double limit) { return limit > 0.0 && kl > limit ? std::sqrt(limit / kl) : 1.0; }

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
                               .first = sent && options_.local_steps == 1 ? curvature_.fixed_layers() : 0};
    const double loss =
        measure_point(task, matrices_, rest_, options_, channel(update, kGradient), wanted ? &factors : nullptr);
    update.scalar(kLoss) = loss;
    update.training = {loss * static_cast<double>(task.data.size()), task.data.size(), 1};
    if (!wanted) {
      leave_zero(update, {GlobalCurvature::kInputs, GlobalCurvature::kOutputs, GlobalCurvature::kRest});
      return;
    }
    if (options_.local_steps > 1) go_on(task, factors, channel(update, kGradient));
    if (!sent) mark_fixed_sent(task, update);
    if (has(update, GlobalCurvature::kInputs)) curvature_.pack(!sent, update);
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
      const double scale = eta * trusted(eta * eta * curvature_.predicted_kl(curvature, step), options_.trust);
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

  void send_last_layer(State& state) const {
    if (options_.personal_steps == 0) return;
    const CurvatureView all = curvature_.in(state);
    std::ranges::copy(last_layer().inputs_of(all.inputs), state.at(kLastInputs).begin());
    std::ranges::copy(last_layer().outputs_of(all.outputs), state.at(kLastOutputs).begin());
  }

  void serve_warm(ServerTask& task) const {
    curvature_.merge_inputs(task.state, task.sum);
    send_last_layer(task.state);
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
      send_last_layer(task.state);
    }
    FlatDouble target = task.sum.take_mean(kGradient);
    const auto gradient = std::span(target).first(layout_->trainable());
    const auto theta = task.state.at("theta");
    double squares = 0.0;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] += options_.prior * static_cast<double>(theta[i]);
      squares += static_cast<double>(theta[i]) * static_cast<double>(theta[i]);
    }
    const bool worse = judge_last_step(task, 0.5 * options_.prior * squares);
    if (secants_.any()) learn_secant(task, worse, gradient);
    take_step(task, gradient);
    const auto velocity = task.state.at(kVelocity);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] = static_cast<double>(theta[i]) + static_cast<double>(velocity[i]);
    }
    const Flat before(theta.begin(), theta.end());
    task.move_theta(target);
    if (secants_.any()) {  // where server.step went
      for (std::size_t i = 0; i < gradient.size(); ++i) velocity[i] = theta[i] - before[i];
    }
    task.state.scalar(kWeight) = task.sum.weight();
    points += 1.0;
  }

  // Levenberg–Marquardt on what is minimised, at the broadcast weights: that is where the last step led. True when it
  // should not have been taken. A velocity that led upwards is dropped (O'Donoghue & Candès 2015).
  bool judge_last_step(ServerTask& task, double penalty) const {
    State& state = task.state;
    double &loss = state.scalar(kLoss), &objective = state.scalar(kObjective), &damping = state.scalar(kDamping),
           &rises = state.scalar(kRises);
    const double found = task.sum.scalar(kLoss) / task.sum.weight();
    bool worse = false;
    if (state.scalar(kPoints) > 0.0 && options_.adapts_damping()) {
      const bool rose = found + penalty > objective;
      damping = std::clamp(damping * (rose ? 3.0 : 0.5), std::min(options_.damping, options_.damping_floor),
                           std::max(options_.damping, options_.damping_cap));
      if (rose && !secants_.any()) std::ranges::fill(state.at(kVelocity), 0.0f);
      // The prior's pull may raise the loss by a little, round after round; that is no failure.
      rises = found > kRise * loss ? rises + 1.0 : 0.0;
      worse = found + penalty > kRise * objective && same_examples(task);
    }
    if (rises >= kMostRises) {
      fail<RunError>("round {}: the loss has risen for {} rounds; lower method.step or raise method.damping",
                     task.round, kMostRises);
    }
    task.metrics["damping"] = damping;
    if (worse && secants_.any()) return true;
    loss = found;
    objective = found + penalty;
    return false;
  }

  static bool same_examples(const ServerTask& task) { return task.state.scalar(kWeight) == task.sum.weight(); }

  // The last step and how the gradient changed by it. One that led upwards is taken back: it has shown where it is
  // steep, and the next one starts where it did, from the gradient that was found there.
  void learn_secant(ServerTask& task, bool take_back, std::span<double> gradient) const {
    State& state = task.state;
    const auto last = state.at(kGradient), step = state.at(kVelocity), theta = state.at("theta");
    if (state.scalar(kPoints) > 0.0 && same_examples(task)) {
      const std::vector<double> s(step.begin(), step.begin() + std::ssize(gradient));
      std::vector<double> y(s.size()), curved(s);
      for (std::size_t i = 0; i < y.size(); ++i) y[i] = gradient[i] - static_cast<double>(last[i]);
      curvature_.times(curvature_.in(state), state.scalar(kDamping) + options_.prior, curved);
      secants_.add(state, s, y, curved);
    }
    task.metrics["taken_back"] = take_back ? 1.0 : 0.0;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      if (take_back) {
        theta[i] -= step[i];
        gradient[i] = static_cast<double>(last[i]);
      } else {
        last[i] = static_cast<float>(gradient[i]);
      }
    }
  }

  // (curvature + d)⁻¹ times each. Factors that are not positive definite with this damping are given ten times as much.
  void precondition(const ServerTask& task, std::span<const std::span<double>> gradients) const {
    constexpr double kLeast = 1e-8;
    std::vector<std::vector<double>> before;
    for (const auto gradient : gradients) before.emplace_back(gradient.begin(), gradient.end());
    double damping = task.state.scalar(kDamping) + options_.prior;
    while (const LayerMatrix* failed = curvature_.precondition(curvature_.in(task.state), damping, gradients)) {
      damping = std::max(kLeast, 10.0 * damping);
      if (damping > std::max(options_.damping, options_.damping_cap)) {
        fail<RunError>("round {}: the factors of {} are not positive definite; raise method.damping", task.round,
                       failed->name());
      }
      for (std::size_t i = 0; i < before.size(); ++i) std::ranges::copy(before[i], gradients[i].begin());
    }
  }

  // The factors of a convolution, which is used in many places at once, underrate its curvature about 25-fold: until a
  // secant says so, a step is held that much shorter.
  double server_trust(const State& state) const {
    constexpr double kUnderrated = 25.0;
    const bool convolves = std::ranges::any_of(
        matrices_.all(), [](const LayerMatrix& matrix) { return matrix.layer.weight.shape.size() > 2; });
    return options_.whole_trust() / (secants_.any() && !secants_.known(state) && convolves ? kUnderrated : 1.0);
  }

  // The velocity becomes the step: V ← mV − η·(curvature + d)⁻¹·gradient, no longer than is trusted.
  void take_step(ServerTask& task, std::span<const double> gradient) const {
    std::vector<double> step(gradient.begin(), gradient.end());
    const auto first = [&](std::span<const std::span<double>> gradients) { precondition(task, gradients); };
    if (secants_.any()) {
      secants_.precondition(task.state, first, step);
    } else {
      const std::span<double> alone[] = {step};
      first(alone);
    }
    const auto velocity = task.state.at(kVelocity);
    const double momentum = secants_.any() ? 0.0 : options_.momentum;
    for (std::size_t i = 0; i < step.size(); ++i) {
      step[i] = momentum * static_cast<double>(velocity[i]) - options_.step_size() * step[i];
    }
    // Secants know the curvature along their own step: VᵀHV = −η·gᵀV.
    const double slope = dot(gradient, step);
    const double kl =
        secants_.any() ? -0.5 * options_.step_size() * slope : curvature_.predicted_kl(curvature_.in(task.state), step);
    const double shrink = trusted(kl, server_trust(task.state));
    std::ranges::transform(step, velocity.begin(), [&](double v) { return static_cast<float>(shrink * v); });
    task.metrics["predicted_kl"] = shrink * shrink * kl;
  }

  std::shared_ptr<const Layout> layout_;
  LaplaceOptions options_;
  LayerMatrices matrices_;
  RestOfModel rest_;
  GlobalCurvature curvature_;
  Secants secants_;
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
