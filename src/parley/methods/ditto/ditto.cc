#include "parley/methods/ditto/ditto.h"

#include <algorithm>

#include "parley/methods/aggregate.h"

namespace parley {
namespace {

constexpr const char* kOwn = "own_theta";

class Ditto final : public Method {
 public:
  explicit Ditto(const MethodContext& context)
      : layout_(context.layout), lambda_(static_cast<float>(context.options.real("lambda"))) {
    require_own_aggregation("ditto", context, "its own models keep their norm layers; use fedavg or fedbn");
  }

  Schema schema() const override {
    return {.channels = {{.name = "theta", .layout = layout_, .relative_to = "theta"}}};
  }

  // The own model is trained last, because what training leaves in the task's model is taken for the client's own.
  void client(const ClientTask& task, Update& update) const override {
    task.load();
    task.train(update);
    std::ranges::copy(task.model.parameters(), update["theta"].begin());
    const TrainingStats shared = update.training;

    if (const ClientRecord* record = task.memory.known()) {
      task.load_weights(record->at(kOwn));
    } else {
      task.load();
    }
    ClientTask own = task;
    own.optimizer_state = nullptr;  // client.state follows the shared model
    own.train(update, {.strength = lambda_, .centre = task.broadcast.at("theta")});  // g + λ(v − θ)
    update.training.merge(shared);
    const auto weights = task.model.parameters();
    task.memory.keep({{kOwn, Flat(weights.begin(), weights.end())}});
  }

  void server(ServerTask& task) const override { task.move_theta(task.sum.take_mean("theta")); }

 private:
  std::shared_ptr<const Layout> layout_;
  float lambda_;
};

}  // namespace

void add_ditto(MethodRegistry& registry) {
  registry.add(
      {.name = "ditto",
       .summary = "Federated averaging, and beside it a model of each client's own, pulled towards the shared one.",
       .source = "Li et al. 2021",
       .options = {{"lambda", 0.1, "how strongly a client's own model is pulled; 0 is local", at_least(0.0)}}},
      [](const MethodContext& context) { return std::make_unique<Ditto>(context); });
}

}  // namespace parley
