#include "parley/methods/qfed/qfed.h"

#include <algorithm>
#include <cmath>

#include "parley/methods/fedsgd/fedsgd.h"

namespace parley {
namespace {

// A client without any loss has nothing to say; this keeps its powers finite.
constexpr double kLeastLoss = 1e-10;

class QFed final : public Method {
 public:
  enum class Step { gradient, training };

  QFed(const MethodContext& context, Step step)
      : layout_(context.layout),
        step_(step),
        q_(context.options.real("q")),
        decay_(context.client.real("weight_decay")) {
    if (step_ == Step::gradient) refuse_local_steps(context, "qfedsgd");
  }

  // Behind what is trained lie the new running statistics, of which the mean is taken.
  Schema schema() const override {
    return {.channels = {{.name = "delta", .layout = layout_, .weighting = Weighting::plain}},
            .scalars = {{"h", Weighting::plain}}};
  }

  void client(const ClientTask& task, Update& update) const override {
    task.load();
    Flat& delta = update["delta"];
    const double loss = step_ == Step::gradient ? take_gradient(task, update) : take_training(task, update);
    const double factor = std::pow(loss, q_), lipschitz = 1.0 / task.lr();
    double norm = 0.0;
    for (std::size_t i = 0; i < layout_->trainable(); ++i) {
      norm += static_cast<double>(delta[i]) * delta[i];
      delta[i] = static_cast<float>(factor * delta[i]);  // Δ = Fᵠ·L(w − w_k)
    }
    // h = q·Fᵠ⁻¹·‖L(w − w_k)‖² + L·Fᵠ: a bound on the curvature of F^{q+1}/(q + 1).
    update.scalar("h") = q_ * std::pow(loss, q_ - 1.0) * norm + lipschitz * factor;
    std::ranges::copy(task.model.parameters().subspan(layout_->trainable()),
                      delta.begin() + static_cast<std::ptrdiff_t>(layout_->trainable()));
  }

  bool trains() const override { return step_ == Step::training; }

  void server(ServerTask& task) const override {
    const double h = task.sum.scalar("h");
    const auto clients = static_cast<double>(task.sum.count());
    FlatDouble target = task.sum.take_total("delta");
    const auto theta = task.state.at("theta");
    for (std::size_t i = 0; i < layout_->trainable(); ++i) target[i] = theta[i] - target[i] / h;
    for (std::size_t i = layout_->trainable(); i < theta.size(); ++i) target[i] /= clients;
    task.move_theta(target);
  }

 private:
  // Both write L(w − w_k) to the channel and return the loss at the incoming model. One step along the gradient has
  // w − w_k = ∇F/L.
  double take_gradient(const ClientTask& task, Update& update) const {
    const auto [loss, gradient] = task.trainer.full_gradient(task.model, task.data);
    const auto theta = task.broadcast.at("theta");
    Flat& delta = update["delta"];
    for (std::size_t i = 0; i < layout_->trainable(); ++i) {
      delta[i] = static_cast<float>(gradient[i] + decay_ * theta[i]);
    }
    update.training = {loss * static_cast<double>(task.data.size()), task.data.size(), 1};
    return loss + kLeastLoss;
  }

  double take_training(const ClientTask& task, Update& update) const {
    const double loss = task.loss();
    task.train(update);
    const auto before = task.broadcast.at("theta");
    const auto after = task.model.parameters();
    Flat& delta = update["delta"];
    for (std::size_t i = 0; i < layout_->trainable(); ++i) {
      delta[i] = static_cast<float>((before[i] - after[i]) / task.lr());
    }
    return loss + kLeastLoss;
  }

  std::shared_ptr<const Layout> layout_;
  Step step_;
  double q_, decay_;
};

void add(MethodRegistry& registry, const char* name, const char* summary, QFed::Step step) {
  registry.add({.name = name,
                .summary = summary,
                .source = "Li et al. 2020 (fair resource allocation)",
                .options = {{"q", 1.0, "how much more a large loss counts; 0 is the uniform mean", at_least(0.0)}}},
               [step](const MethodContext& context) { return std::make_unique<QFed>(context, step); });
}

}  // namespace

void add_qfed(MethodRegistry& registry) {
  add(registry, "qfedavg", "Averages steps of local training, those of clients with a large loss the more.",
      QFed::Step::training);
  add(registry, "qfedsgd", "The same with one exact gradient from every client.", QFed::Step::gradient);
}

}  // namespace parley
