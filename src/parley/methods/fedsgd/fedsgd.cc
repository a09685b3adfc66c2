#include "parley/methods/fedsgd/fedsgd.h"

#include <algorithm>

#include "parley/base/errors.h"

namespace parley {
namespace {

class FedSgd final : public Method {
 public:
  explicit FedSgd(const MethodContext& context)
      : layout_(context.layout), local_(context.client), decay_(context.client.real("weight_decay")) {
    refuse_local_steps(context, "fedsgd");
  }

  // Running statistics are not in the gradient, so their new values travel behind it, as in fedavg.
  Schema schema() const override { return {.channels = {{.name = "gradient", .layout = layout_}}}; }

  void client(const ClientTask& task, Update& update) const override {
    task.load();
    const auto [loss, gradient] = task.trainer.full_gradient(task.model, task.data);
    Flat& sent = update["gradient"];
    std::ranges::copy(gradient, sent.begin());
    std::ranges::copy(task.model.parameters().subspan(layout_->trainable()),
                      sent.begin() + static_cast<std::ptrdiff_t>(layout_->trainable()));
    const std::size_t examples = task.data.size();
    update.training = {loss * static_cast<double>(examples), examples, 1};
  }

  bool trains() const override { return false; }

  void server(ServerTask& task) const override {
    FlatDouble target = task.sum.take_mean("gradient");
    const auto theta = task.state.at("theta");
    const double lr = local_.lr_in(task.round);
    for (std::size_t i = 0; i < layout_->trainable(); ++i) target[i] = theta[i] - lr * (target[i] + decay_ * theta[i]);
    task.move_theta(target);
  }

 private:
  std::shared_ptr<const Layout> layout_;
  LocalOptions local_;
  double decay_;
};

}  // namespace

void refuse_local_steps(const MethodContext& context, const std::string& method) {
  if (const std::string& optimizer = context.client.text("optimizer"); optimizer != "sgd") {
    fail("client.optimizer = \"{}\": {}'s clients send a gradient and take no steps; use server.step", optimizer,
         method);
  }
  if (const double norm = context.client.real("clip_norm"); norm > 0.0) {
    fail("client.clip_norm = {}: {}'s clients send their exact gradient; clip it by stages.use = [\"clip\"]", norm,
         method);
  }
}

void add_fedsgd(MethodRegistry& registry) {
  registry.add({.name = "fedsgd",
                .summary = "One exact gradient from every client, one step of size client.lr on the server.",
                .source = "McMahan et al. 2017"},
               [](const MethodContext& context) { return std::make_unique<FedSgd>(context); });
}

}  // namespace parley
