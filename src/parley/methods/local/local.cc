#include "parley/methods/local/local.h"

#include <algorithm>

#include "parley/base/errors.h"

namespace parley {
namespace {

constexpr const char* kOwn = "own_theta";

class Local final : public Method, private Personal {
 public:
  explicit Local(const MethodContext& context) : layout_(context.layout) {
    if (context.client.text("state") == "central" && context.client.text("optimizer") != "sgd") {
      fail(
          "client.state = \"central\": local has nobody to share an optimiser's state with; use \"worker\" or "
          "\"reset\"");
    }
  }

  // For the average that is evaluated as the shared model; nobody trains from it.
  Schema schema() const override {
    return {.channels = {{.name = "theta", .layout = layout_, .relative_to = "theta"}}};
  }

  void client(const ClientTask& task, Update& update) const override {
    const ClientRecord* record = task.memory.known();
    // A client that is seen for the first time in round 50 starts where the others did.
    task.load_weights(record != nullptr ? record->at(kOwn) : task.initial);
    task.train(update);
    Flat& theta = update["theta"];
    std::ranges::copy(task.model.parameters(), theta.begin());
    task.memory.keep({{kOwn, theta}});
  }

  const Personal* personal() const override { return this; }

  void server(ServerTask& task) const override { task.move_theta(task.sum.take_mean("theta")); }

 private:
  bool load_untrained(const ClientTask& task) const override {
    task.load_weights(task.initial);
    return true;
  }

  std::shared_ptr<const Layout> layout_;
};

}  // namespace

void add_local(MethodRegistry& registry) {
  registry.add({.name = "local",
                .summary = "No federation: every client trains a model of its own; the shared model is their average.",
                .source = ""},
               [](const MethodContext& context) { return std::make_unique<Local>(context); });
}

}  // namespace parley
