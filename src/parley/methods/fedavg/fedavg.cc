#include "parley/methods/fedavg/fedavg.h"

#include <algorithm>

namespace parley {
namespace {

class Averaging final : public Method {
 public:
  Averaging(const MethodContext& context, double proximal)
      : layout_(context.layout), proximal_(static_cast<float>(proximal)) {}

  Schema schema() const override {
    return {.channels = {{.name = "theta", .layout = layout_, .relative_to = "theta"}}};
  }

  void client(const ClientTask& task, Update& update) const override {
    task.load();
    task.train(update, {.strength = proximal_, .centre = task.broadcast.at("theta")});  // g + μ(θ − θ_s)
    std::ranges::copy(task.model.parameters(), update["theta"].begin());
  }

  void server(ServerTask& task) const override { task.move_theta(task.sum.take_mean("theta")); }

 private:
  std::shared_ptr<const Layout> layout_;
  float proximal_;
};

}  // namespace

std::unique_ptr<Method> make_averaging(const MethodContext& context, double proximal) {
  return std::make_unique<Averaging>(context, proximal);
}

void add_fedavg(MethodRegistry& registry) {
  registry.add(
      {.name = "fedavg",
       .summary = "Averages the clients' weights; with server.step also FedAvgM, FedAdam, FedAdagrad, FedYogi.",
       .source = "McMahan et al. 2017"},
      [](const MethodContext& context) { return make_averaging(context, 0.0); });
}

}  // namespace parley
