#include "parley/methods/method.h"

#include <algorithm>

#include "parley/base/errors.h"
#include "parley/model/evaluation.h"

namespace parley {

void ClientTask::load(std::string_view name) const {
  load_weights(broadcast.at(name));
}

void ClientTask::load_weights(std::span<const float> weights) const {
  std::ranges::copy(weights, model.parameters().begin());
  model.reseed(stream("training noise"));
}

double ClientTask::loss() const {
  try {
    return evaluate(model, data).loss();
  } catch (const RunError& error) {
    throw RefusedUpdate(error.what());
  }
}

void ClientTask::train(Update& update, const LinearTerm& term, const LocalHooks& hooks) const {
  update.training = trainer.train(model, data, local, lr(), stream("batches"), term, hooks, optimizer_state);
}

void ServerTask::move_theta(std::span<const double> target) const {
  const auto theta = state.at("theta");
  std::size_t trainable = 0;
  for (const auto& channel : state.channels()) {
    if (channel.name == "theta") trainable = channel.layout->trainable();
  }
  std::vector<std::span<float>> slots;
  for (const auto& slot : step.slots()) slots.push_back(state.at(slot.name).first(trainable));
  step.apply(theta.first(trainable), target.first(trainable), slots);
  for (std::size_t i = trainable; i < theta.size(); ++i) theta[i] = static_cast<float>(target[i]);
}

std::vector<std::size_t> draw_at_random(const CohortTask& task) {
  std::vector<std::size_t> cohort(task.holders.begin(), task.holders.end());
  if (task.wanted == cohort.size()) return cohort;
  Stream(task.seed, "cohort", task.round).shuffle(std::span(cohort));
  cohort.resize(task.wanted);
  return cohort;
}

const Personal& personal_of(const Method& method) {
  static const Personal nothing_special;
  const Personal* personal = method.personal();
  return personal != nullptr ? *personal : nothing_special;
}

std::size_t MethodContext::holders() const {
  return static_cast<std::size_t>(std::ranges::count_if(sizes, [](std::size_t size) { return size > 0; }));
}

MethodContext MethodContext::with_options(const Options& other) const {
  return {other, client, server, aggregate, layout, task, clients, examples, seed, sizes};
}

MethodContext MethodContext::with_aggregate(const Options& other) const {
  return {options, client, server, other, layout, task, clients, examples, seed, sizes};
}

}  // namespace parley
