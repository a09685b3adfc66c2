#include "parley/methods/method.h"

#include <algorithm>
#include <cassert>

namespace parley {

void ClientTask::load(std::string_view name) const {
  const auto from = broadcast.at(name);
  std::copy(from.begin(), from.end(), model.parameters().begin());
  model.reseed(stream("training noise"));
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

void Method::draw(const State&, const PosteriorDraw&, Stream&, std::span<float>) const {
  assert(false && "drawn from a method without a posterior");
}

}  // namespace parley
