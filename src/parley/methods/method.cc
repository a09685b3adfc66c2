#include "parley/methods/method.h"

#include <algorithm>
#include <unordered_map>

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

namespace {

// The front of a shuffle of all holders, of which only the places that it touches are kept: it costs what is drawn, not
// what it is drawn from.
std::vector<std::size_t> draw_from_many(const CohortTask& task, Stream& stream) {
  std::unordered_map<std::size_t, std::size_t> moved;  // what stands at a place that has been swapped
  const auto at = [&](std::size_t place) {
    const auto found = moved.find(place);
    return found != moved.end() ? found->second : place;
  };
  std::vector<std::size_t> cohort;
  for (std::size_t i = 0; i < task.wanted; ++i) {
    const std::size_t drawn = i + stream.below(task.holders.size() - i), there = at(drawn);
    moved[drawn] = at(i);
    cohort.push_back(task.holders[there]);
  }
  return cohort;
}

}  // namespace

std::vector<std::size_t> draw_at_random(const CohortTask& task) {
  // Up to here a whole shuffle costs nothing, and it is what published runs have drawn.
  constexpr std::size_t kFew = 10000;
  Stream stream(task.seed, "cohort", task.round);
  if (task.holders.size() > kFew && task.wanted < task.holders.size()) return draw_from_many(task, stream);
  std::vector<std::size_t> cohort(task.holders.begin(), task.holders.end());
  if (task.wanted == cohort.size()) return cohort;
  stream.shuffle(std::span(cohort));
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
