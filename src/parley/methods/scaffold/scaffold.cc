#include "parley/methods/scaffold/scaffold.h"

#include "parley/base/errors.h"

namespace parley {
namespace {

constexpr const char* kControl = "control";

class Scaffold final : public Method {
 public:
  explicit Scaffold(const MethodContext& context)
      : layout_(context.layout), holders_(static_cast<double>(context.holders())) {
    if (const std::string& optimizer = context.client.text("optimizer"); optimizer != "sgd") {
      fail("client.optimizer = \"{}\": scaffold's control variates are defined for sgd only", optimizer);
    }
  }

  // Both plain: SCAFFOLD averages clients, not examples.
  Schema schema() const override {
    return {.channels = {{.name = "delta_theta", .layout = layout_, .weighting = Weighting::plain},
                         {.name = "delta_control", .layout = layout_, .weighting = Weighting::plain}}};
  }

  void start(State& state) const override { state.add(kControl, layout_, true, Flat(layout_->size(), 0.0f)); }

  void client(const ClientTask& task, Update& update) const override {
    task.load();
    const std::size_t trainable = layout_->trainable();
    const auto start = task.broadcast.at("theta"), control = task.broadcast.at(kControl);
    const ClientRecord* known = task.memory.known();
    Flat own = known != nullptr ? known->at(kControl) : Flat(layout_->size(), 0.0f);

    Flat &delta_theta = update["delta_theta"], &delta_control = update["delta_control"];
    for (std::size_t i = 0; i < trainable; ++i) delta_control[i] = control[i] - own[i];
    task.train(update, {.offset = std::span(delta_control).first(trainable)});  // g − c_i + c

    const auto theta = task.model.parameters();
    const double scale = 1.0 / (static_cast<double>(update.training.steps) * task.lr());
    for (std::size_t i = 0; i < trainable; ++i) {
      delta_theta[i] = theta[i] - start[i];
      // Option II: c_i⁺ = c_i − c + (x − y_i)/(Kη), so Δc = −c + (x − y_i)/(Kη).
      delta_control[i] = static_cast<float>(-control[i] - scale * delta_theta[i]);
      own[i] += delta_control[i];
    }
    for (std::size_t i = trainable; i < theta.size(); ++i) delta_theta[i] = theta[i] - start[i];
    task.memory.keep({{kControl, std::move(own)}});
  }

  void server(ServerTask& task) const override {
    const auto control = task.state.at(kControl), theta = task.state.at("theta");
    const auto sum = task.sum.total("delta_control");
    // c ← c + |S|/N · mean Δc = c + ΣΔc/N. N counts those who hold data, or c would never be the mean of the c_i.
    for (std::size_t i = 0; i < control.size(); ++i) control[i] = static_cast<float>(control[i] + sum[i] / holders_);
    FlatDouble target = task.sum.take_mean("delta_theta");
    for (std::size_t i = 0; i < theta.size(); ++i) target[i] += theta[i];
    task.move_theta(target);
  }

 private:
  std::shared_ptr<const Layout> layout_;
  double holders_;
};

}  // namespace

void add_scaffold(MethodRegistry& registry) {
  registry.add({.name = "scaffold",
                .summary = "Control variates on server and clients take the drift out of local training.",
                .source = "Karimireddy et al. 2020, option II"},
               [](const MethodContext& context) { return std::make_unique<Scaffold>(context); });
}

}  // namespace parley
