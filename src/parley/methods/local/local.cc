#include "parley/methods/local/local.h"

#include <algorithm>

namespace parley {
namespace {

constexpr const char* kInitial = "initial";
constexpr const char* kOwn = "own_theta";

class Local final : public Method {
 public:
  explicit Local(const MethodContext& context) : layout_(context.layout) {}

  // For the average that is evaluated as the shared model; nobody trains from it.
  Schema schema() const override { return {.channels = {{"theta", layout_->size(), Weighting::by_weight, kInitial}}}; }

  // A client that is seen for the first time in round 50 starts where the others did.
  void start(State& state) const override {
    const auto theta = state.at("theta");
    state.add(kInitial, layout_, true, Flat(theta.begin(), theta.end()));
  }

  void client(const ClientTask& task, Update& update) const override {
    if (const auto record = task.store.load(task.client)) {
      task.load_weights(record->at(kOwn));
    } else {
      task.load(kInitial);
    }
    task.train(update);
    std::ranges::copy(task.model.parameters(), update.channels[0].begin());
    task.store.stage(task.client, {{kOwn, update.channels[0]}});
  }

  void server(ServerTask& task) const override { task.move_theta(task.sum.take_mean("theta")); }

 private:
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
