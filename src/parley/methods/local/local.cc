#include "parley/methods/local/local.h"

#include <algorithm>

#include "parley/base/errors.h"

namespace parley {
namespace {

constexpr const char* kOwn = "own_theta";

class Local final : public Method {
 public:
  // A client that is seen for the first time in round 50 starts where the others did, which it can draw itself.
  explicit Local(const MethodContext& context)
      : size_(context.layout->size()), initial_(context.initial.begin(), context.initial.end()) {
    if (context.client.text("state") == "central" && context.client.text("optimizer") != "sgd") {
      fail(
          "client.state = \"central\": local has nobody to share an optimiser's state with; use \"worker\" or "
          "\"reset\"");
    }
  }

  // For the average that is evaluated as the shared model; nobody trains from it.
  Schema schema() const override { return {.channels = {{"theta", size_, Weighting::by_weight, "theta"}}}; }

  void client(const ClientTask& task, Update& update) const override {
    const auto record = task.store.load(task.client);
    task.load_weights(record ? record->at(kOwn) : initial_);
    task.train(update);
    std::ranges::copy(task.model.parameters(), update.channels[0].begin());
    task.store.stage(task.client, {{kOwn, update.channels[0]}});
  }

  bool load_untrained(const ClientTask& task) const override {
    task.load_weights(initial_);
    return true;
  }

  void server(ServerTask& task) const override { task.move_theta(task.sum.take_mean("theta")); }

 private:
  std::size_t size_;
  Flat initial_;
};

}  // namespace

void add_local(MethodRegistry& registry) {
  registry.add({.name = "local",
                .summary = "No federation: every client trains a model of its own; the shared model is their average.",
                .source = ""},
               [](const MethodContext& context) { return std::make_unique<Local>(context); });
}

}  // namespace parley
