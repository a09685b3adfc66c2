#include "parley/methods/fitness.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "parley/base/errors.h"
#include "parley/model/evaluation.h"
#include "parley/model/losses.h"

namespace parley {
namespace {

constexpr const char* kFitness = "fitness";
// Of a candidate whose error is not finite. Far from the end of float, so that the nodes' sum stays finite.
constexpr float kLowestFitness = -1e30f;
// Rows in memory as floats at a time. A candidate is written once for each block, which costs a method that draws its
// candidates as much as a few hundred rows.
constexpr std::size_t kBlock = 8 * kEvaluationChunk;

Batch part_of(const Batch& batch, std::size_t begin, std::size_t end) {
  const auto rows = [&](auto values) {
    const std::size_t width = values.size() / batch.size;
    return values.subspan(begin * width, (end - begin) * width);
  };
  return {
      .size = end - begin, .inputs = rows(batch.inputs), .labels = rows(batch.labels), .targets = rows(batch.targets)};
}

// Σ over examples and outputs of (ŷ − y)².
double error_sum(Model& model, const Batch& batch, Flat& outputs) {
  const std::size_t width = model.outputs();
  outputs.resize(batch.size * width);
  model.predict(batch, outputs);
  if (model.loss() == Loss::cross_entropy) {
    for (std::size_t i = 0; i < batch.size; ++i) softmax(std::span(outputs).subspan(i * width, width));
  }
  return squared_error(batch, width, outputs) * static_cast<double>(outputs.size());
}

// The same of a whole block, in pieces whose activations stay small.
double block_error_sum(Model& model, const Batch& block, Flat& outputs) {
  double sum = 0.0;
  for (std::size_t at = 0; at < block.size; at += kEvaluationChunk) {
    sum += error_sum(model, part_of(block, at, std::min(at + kEvaluationChunk, block.size)), outputs);
  }
  return sum;
}

}  // namespace

Schema fitness_schema(std::size_t candidates) {
  return {.channels = {{.name = kFitness, .count = candidates, .statistic = true}}};
}

void require_comparable(const Task& task) {
  if (task.loss == Loss::cross_entropy && task.outputs == 1) {
    fail(
        "model.loss = \"cross_entropy\": the probability of a single output is always 1, so no candidate would be "
        "fitter than another; use \"mse\", or data of two classes or more");
  }
}

void measure_fitness(const ClientTask& task, const View& data, const WriteCandidate& write, Update& update) {
  task.load();
  const auto weights = task.model.parameters().first(task.model.layout().trainable());
  Flat& fitness = update[kFitness];
  std::vector<double> errors(fitness.size(), 0.0);
  BatchBuffer buffer;
  Flat outputs;
  for (std::size_t at = 0; at < data.size(); at += kBlock) {
    const Batch block = buffer.gather_range(data, at, std::min(at + kBlock, data.size()));
    for (std::size_t i = 0; i < errors.size(); ++i) {
      write(i, weights);
      errors[i] += block_error_sum(task.model, block, outputs);
    }
  }
  update.training = {.examples = data.size() * errors.size(), .steps = errors.size()};
  bool any = false;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const double value = -errors[i] / static_cast<double>(data.size());  // eq. 5.4
    const bool usable = std::isfinite(value) && value > kLowestFitness;
    fitness[i] = usable ? static_cast<float>(value) : kLowestFitness;
    if (usable) update.training.loss_sum += errors[i];
    any |= usable;
  }
  if (!any) fail<RefusedUpdate>("diverged: no candidate has a finite squared error on this client's data");
}

FlatDouble take_fitness(ServerTask& task) {
  return task.sum.take_mean(kFitness);
}

std::vector<std::size_t> ranked(std::span<const double> fitness) {
  std::vector<std::size_t> order(fitness.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return fitness[a] > fitness[b]; });
  return order;
}

void move_theta_to(const ServerTask& task, std::span<const float> weights) {
  const auto theta = task.state.at("theta");
  std::vector<double> target(theta.begin(), theta.end());
  std::ranges::copy(weights, target.begin());
  task.move_theta(target);
}

}  // namespace parley
