#include "parley/methods/fedcurv/fedcurv.h"

#include <algorithm>

#include "parley/base/errors.h"
#include "parley/methods/fisher.h"

namespace parley {
namespace {

class FedCurv final : public Method {
 public:
  explicit FedCurv(const MethodContext& context)
      : layout_(context.layout), mu_(context.options.real("mu")), gradient_(FisherMeter::of(context)) {}

  Schema schema() const override {
    return {
        .channels = {{.name = "theta", .layout = layout_, .relative_to = "theta"},
                     {.name = "fisher", .layout = layout_, .weighting = Weighting::plain, .statistic = true},
                     {.name = "fisher_theta", .layout = layout_, .weighting = Weighting::plain, .statistic = true}}};
  }

  void start(State& state) const override {
    state.add("fisher", layout_, true, Flat(layout_->size(), 0.0f));
    state.add("fisher_theta", layout_, true, Flat(layout_->size(), 0.0f));
  }

  void client(const ClientTask& task, Update& update) const override {
    task.load();
    const std::size_t trainable = layout_->trainable();
    Flat &theta = update["theta"], &fisher = update["fisher"], &fisher_theta = update["fisher_theta"];
    // The channels hold the others' sums while training, and this client's own after it.
    const ClientRecord* own = task.memory.known();
    const bool counted = own != nullptr && own->at("round")[0] == static_cast<float>(task.round - 1);
    const Flat zeros(counted ? 0 : trainable, 0.0f);
    const Flat &own_fisher = counted ? own->at("fisher") : zeros,
               &own_fisher_theta = counted ? own->at("fisher_theta") : zeros;
    const auto all_fisher = task.broadcast.at("fisher"), all_fisher_theta = task.broadcast.at("fisher_theta");
    for (std::size_t i = 0; i < trainable; ++i) {
      fisher[i] = std::max(0.0f, all_fisher[i] - own_fisher[i]);
      fisher_theta[i] = all_fisher_theta[i] - own_fisher_theta[i];
    }
    train(task, update, std::span(fisher).first(trainable), std::span(fisher_theta).first(trainable));

    std::ranges::copy(task.model.parameters(), theta.begin());
    std::ranges::fill(fisher, 0.0f);
    std::ranges::fill(fisher_theta, 0.0f);
    measure_fisher(gradient_, task, std::span(fisher).first(trainable));
    for (std::size_t i = 0; i < trainable; ++i) fisher_theta[i] = fisher[i] * theta[i];
    task.memory.keep(
        {{"fisher", fisher}, {"fisher_theta", fisher_theta}, {"round", Flat{static_cast<float>(task.round)}}});
  }

  void server(ServerTask& task) const override {
    for (const char* name : {"fisher", "fisher_theta"}) {
      std::ranges::transform(task.sum.total(name), task.state.at(name).begin(),
                             [](double x) { return static_cast<float>(x); });
    }
    task.move_theta(task.sum.take_mean("theta"));
  }

 private:
  // The penalty μ·Σ_{j≠n} F_j(θ − θ_j)² takes its step after each of the task's, implicitly:
  // θ ← (θ + 2μη·ΣFθ_j)/(1 + 2μη·ΣF). The explicit step diverges once 2μη·ΣF exceeds 2, which the μ of 10² to 10⁴ that
  // are in use make it do wherever a Fisher is not small.
  void train(const ClientTask& task, Update& update, std::span<const float> fisher,
             std::span<const float> fisher_theta) const {
    if (mu_ == 0.0) return task.train(update);
    const auto strength = static_cast<float>(2.0 * mu_ * task.lr());
    task.train(update, {}, {.after_step = [&](std::size_t) {
                 float* theta = task.model.parameters().data();
                 for (std::size_t i = 0; i < fisher.size(); ++i) {
                   theta[i] = (theta[i] + strength * fisher_theta[i]) / (1.0f + strength * fisher[i]);
                 }
               }});
  }

  std::shared_ptr<const Layout> layout_;
  double mu_;
  FisherMeter::Of gradient_;
};

}  // namespace

void add_fedcurv(MethodRegistry& registry) {
  registry.add(
      {.name = "fedcurv",
       .summary = "Averages weights that were pulled towards the other clients' optima, as stiffly as those are sure.",
       .source = "Shoham et al. 2019",
       .options = {{"mu", 1.0, "strength of the pull; 0 is fedavg", at_least(0.0)},
                   {"gradient",
                    std::string("minibatch"),
                    "what is squared for the Fisher information",
                    {},
                    {"minibatch", "per_sample"}}}},
      [](const MethodContext& context) { return std::make_unique<FedCurv>(context); });
}

}  // namespace parley
