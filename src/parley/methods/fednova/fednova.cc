#include "parley/methods/fednova/fednova.h"

#include <cmath>

#include "parley/base/errors.h"

namespace parley {
namespace {

class FedNova final : public Method {
 public:
  explicit FedNova(const MethodContext& context) : layout_(context.layout), mu_(context.options.real("mu")) {
    const std::string& optimizer = context.client.text("optimizer");
    if (optimizer == "momentum") momentum_ = context.client.real("momentum");
    if (optimizer != "sgd" && optimizer != "momentum") {
      fail("client.optimizer = \"{}\": fednova knows the step weights of sgd and momentum only", optimizer);
    }
    if (const std::string& state = context.client.text("state"); momentum_ > 0.0 && state != "reset") {
      fail("client.state = \"{}\": fednova's step weights hold for a momentum that starts at zero; use \"reset\"",
           state);
    }
    if (momentum_ > 0.0 && mu_ > 0.0) {
      fail("method.mu = {}: fednova combines the proximal term with client.optimizer = \"sgd\" only", mu_);
    }
  }

  Schema schema() const override {
    return {.channels = {{.name = "direction", .layout = layout_}}, .scalars = {{"step_weight"}}};
  }

  void client(const ClientTask& task, Update& update) const override {
    task.load();
    const auto start = task.broadcast.at("theta");
    task.train(update, {.strength = static_cast<float>(mu_), .centre = start});
    const double norm = step_weight(static_cast<double>(update.training.steps), task.lr());
    const auto theta = task.model.parameters();
    Flat& direction = update["direction"];
    for (std::size_t i = 0; i < layout_->trainable(); ++i) {
      direction[i] = static_cast<float>((double{theta[i]} - start[i]) / norm);  // −η·d_i, Eq. 9
    }
    for (std::size_t i = layout_->trainable(); i < theta.size(); ++i) direction[i] = theta[i];
    update.scalar("step_weight") = norm;
  }

  void server(ServerTask& task) const override {
    const double effective = task.sum.scalar("step_weight") / task.sum.weight();  // τ_eff = Σ p_i ‖a_i‖₁
    FlatDouble target = task.sum.take_mean("direction");
    const auto theta = task.state.at("theta");
    for (std::size_t i = 0; i < layout_->trainable(); ++i) target[i] = theta[i] + effective * target[i];
    task.move_theta(target);
    task.metrics["effective_steps"] = effective;
  }

 private:
  // ‖a_i‖₁ of τ local steps: how much the gradients of the path add up to (§4.1 of the paper).
  double step_weight(double steps, double lr) const {
    if (momentum_ > 0.0) {
      return (steps - momentum_ * (1.0 - std::pow(momentum_, steps)) / (1.0 - momentum_)) / (1.0 - momentum_);
    }
    if (mu_ > 0.0) return (1.0 - std::pow(1.0 - lr * mu_, steps)) / (lr * mu_);
    return steps;
  }

  std::shared_ptr<const Layout> layout_;
  double mu_;
  double momentum_ = 0.0;
};

}  // namespace

void add_fednova(MethodRegistry& registry) {
  registry.add({.name = "fednova",
                .summary = "Normalises every client's progress by the steps it took before averaging.",
                .source = "Wang et al. 2020",
                .options = {{"mu", 0.0, "strength of a proximal term, as in fedprox", at_least(0.0)}}},
               [](const MethodContext& context) { return std::make_unique<FedNova>(context); });
}

}  // namespace parley
