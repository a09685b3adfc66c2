#include "parley/methods/pfedme/pfedme.h"

#include <algorithm>

#include "parley/methods/aggregate.h"

namespace parley {
namespace {

constexpr const char* kOwn = "own_theta";

class PFedMe final : public Method {
 public:
  explicit PFedMe(const MethodContext& context)
      : layout_(context.layout),
        lambda_(static_cast<float>(context.options.real("lambda"))),
        pull_(static_cast<float>(context.options.real("pull"))),
        steps_(static_cast<std::size_t>(context.options.integer("steps"))) {
    require_own_aggregation("pfedme", context, "its own models keep their norm layers; use fedavg or fedbn");
  }

  Schema schema() const override {
    return {.channels = {{.name = "theta", .layout = layout_, .relative_to = "theta"}}};
  }

  void client(const ClientTask& task, Update& update) const override {
    if (const ClientRecord* record = task.memory.known()) {
      task.load_weights(record->at(kOwn));
    } else {
      task.load();
    }
    // The channel is the client's copy w of the shared model, which moves while v is trained.
    Flat& w = update["theta"];
    std::ranges::copy(task.broadcast.at("theta"), w.begin());
    const auto v = task.model.parameters();
    const auto follow = [&](std::size_t steps) {
      if (steps % steps_ == 0) follow_own(w, v);
    };
    task.train(update, {.strength = lambda_, .centre = w}, {.after_step = follow});  // g + λ(v − w)
    if (update.training.steps % steps_ != 0) follow_own(w, v);
    std::ranges::copy(v.subspan(layout_->trainable()), w.begin() + static_cast<std::ptrdiff_t>(layout_->trainable()));
    task.memory.keep({{kOwn, Flat(v.begin(), v.end())}});
  }

  void server(ServerTask& task) const override { task.move_theta(task.sum.take_mean("theta")); }

 private:
  // w ← w − ηλ(w − v), since λ(w − v) is the gradient of the envelope at its minimum v.
  void follow_own(Flat& w, std::span<const float> v) const {
    for (std::size_t i = 0; i < layout_->trainable(); ++i) w[i] -= pull_ * (w[i] - v[i]);
  }

  std::shared_ptr<const Layout> layout_;
  float lambda_, pull_;
  std::size_t steps_;
};

}  // namespace

void add_pfedme(MethodRegistry& registry) {
  registry.add({.name = "pfedme",
                .summary = "Each client's own model is tied to a copy of the shared one, which follows it slowly.",
                .source = "T Dinh et al. 2020",
                .options = {{"lambda", 1.0, "how strongly a client's own model is tied to the shared one", above(0.0)},
                            {"pull",
                             0.5,
                             "part of the way that the copy follows, ηλ of the paper",
                             {.low = 0.0, .high = 1.0, .low_excluded = true}},
                            {"steps", std::int64_t{5}, "steps of the own model before the copy follows", at_least(1)}}},
               [](const MethodContext& context) { return std::make_unique<PFedMe>(context); });
}

}  // namespace parley
