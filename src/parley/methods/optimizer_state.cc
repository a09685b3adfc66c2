#include "parley/methods/optimizer_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "parley/base/errors.h"
#include "parley/methods/wrapper.h"

namespace parley {
namespace {

constexpr const char* kSteps = "optimizer_steps";

std::string slot_name(std::size_t k) {
  return fmt::format("slot{}", k + 1);
}

class Wrapper : public MethodWrapper {
 public:
  Wrapper(std::unique_ptr<Method> method, const MethodContext& context, const std::vector<Optimizer::Slot>& slots)
      : MethodWrapper(std::move(method)), layout_(context.layout), slots_(slots) {}

 protected:
  // The method's client half; its training starts from `state`, and leaves there what it ended with.
  void train(const ClientTask& task, OptimizerState& state, Update& update) const {
    ClientTask with_state = task;
    with_state.optimizer_state = &state;
    method_->client(with_state, update);
  }

  std::shared_ptr<const Layout> layout_;
  std::vector<Optimizer::Slot> slots_;
};

class WorkerState final : public Wrapper {
 public:
  using Wrapper::Wrapper;

  void client(const ClientTask& task, Update& update) const override {
    OptimizerState state = remembered(task);
    train(task, state, update);
    ClientRecord record;
    for (std::size_t k = 0; k < slots_.size(); ++k) record[slot_name(k)] = std::move(state.slots[k]);
    record[kSteps] = Flat{static_cast<float>(state.steps)};  // exact to 2²⁴ steps; the bias is gone long before
    task.memory.amend(std::move(record));
  }

 private:
  OptimizerState remembered(const ClientTask& task) const {
    OptimizerState state;
    const ClientRecord* record = task.memory.known();
    const std::size_t trained = task.model.layout().trainable();
    for (std::size_t k = 0; k < slots_.size(); ++k) {
      state.slots.push_back(record ? record->at(slot_name(k)) : Flat(trained, slots_[k].initial));
    }
    if (record) state.steps = record->at(kSteps)[0];
    return state;
  }
};

class CentralState final : public Wrapper {
 public:
  using Wrapper::Wrapper;

  // Statistics, because a stage that clips or rounds what was learned has no business with a mean of squares.
  Schema schema() const override {
    Schema schema = method_->schema();
    for (std::size_t k = 0; k < slots_.size(); ++k) {
      schema.channels.push_back({.name = slot_name(k),
                                 .layout = layout_,
                                 .relative_to = slot_name(k),
                                 .bound = slots_[k].square ? ChannelSpec::Bound::non_negative : ChannelSpec::Bound::any,
                                 .statistic = true});
    }
    schema.scalars.push_back({kSteps});
    return schema;
  }

  void start(State& state) const override {
    method_->start(state);
    for (std::size_t k = 0; k < slots_.size(); ++k) {
      state.add(slot_name(k), layout_, true, Flat(layout_->size(), slots_[k].initial));
    }
    state.add_scalar(kSteps, true, 0.0);
  }

  void client(const ClientTask& task, Update& update) const override {
    OptimizerState state{.steps = task.broadcast.scalar(kSteps)};
    for (std::size_t k = 0; k < slots_.size(); ++k) {
      const auto slot = task.broadcast.at(slot_name(k)).first(layout_->trainable());
      state.slots.emplace_back(slot.begin(), slot.end());
    }
    train(task, state, update);
    for (std::size_t k = 0; k < slots_.size(); ++k) {
      std::ranges::copy(state.slots[k], update[slot_name(k)].begin());
    }
    update.scalar(kSteps) = state.steps;
  }

  void server(ServerTask& task) const override {
    method_->server(task);
    for (std::size_t k = 0; k < slots_.size(); ++k) {
      std::ranges::transform(task.sum.take_mean(slot_name(k)), task.state.at(slot_name(k)).begin(),
                             [](double x) { return static_cast<float>(x); });
    }
    task.state.scalar(kSteps) = task.sum.scalar(kSteps) / task.sum.weight();
  }
};

}  // namespace

std::unique_ptr<Method> carry_optimizer_state(std::unique_ptr<Method> method, const MethodContext& context,
                                              const std::vector<Optimizer::Slot>& slots) {
  const std::string& state = context.client.text("state");
  if (slots.empty() || state == "reset" || !method->trains()) return method;
  if (state == "central" && personal_of(*method).other_model()) {
    fail(
        "client.state = \"central\": clients train a model of their own, whose optimiser the server cannot carry; use "
        "\"worker\" or \"reset\"");
  }
  if (state == "worker") return std::make_unique<WorkerState>(std::move(method), context, slots);
  return std::make_unique<CentralState>(std::move(method), context, slots);
}

}  // namespace parley
