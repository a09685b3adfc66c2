#include "parley/methods/fitness.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "parley/base/errors.h"
#include "parley/model/evaluation.h"
#include "parley/model/losses.h"
#include "parley/model/stacked_mlp.h"

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

// Σ over examples and outputs of (ŷ − y)², of raw outputs, which are overwritten.
double error_sum(Loss loss, const Batch& batch, std::size_t width, std::span<float> outputs) {
  if (loss == Loss::cross_entropy) {
    for (std::size_t i = 0; i < batch.size; ++i) softmax(outputs.subspan(i * width, width));
  }
  return squared_error(batch, width, outputs) * static_cast<double>(outputs.size());
}

// Adds to the errors of all candidates on a block of examples, in pieces whose activations stay small.
class OneByOne {
 public:
  explicit OneByOne(Model& model) : model_(model) {}

  void measure(const Batch& block, const WriteCandidate& write, std::span<double> errors) {
    const auto weights = model_.parameters().first(model_.layout().trainable());
    for (std::size_t i = 0; i < errors.size(); ++i) {
      write(i, weights);
      for (std::size_t at = 0; at < block.size; at += kEvaluationChunk) {
        const Batch piece = part_of(block, at, std::min(at + kEvaluationChunk, block.size));
        outputs_.resize(piece.size * model_.outputs());
        model_.predict(piece, outputs_);
        errors[i] += error_sum(model_.loss(), piece, model_.outputs(), outputs_);
      }
    }
  }

 private:
  Model& model_;
  Flat outputs_;
};

// The same for small dense networks, as many at a time as make the first layers' product wide.
class Stacked {
 public:
  Stacked(const MlpPlan& plan, std::size_t candidates)
      : plan_(plan), most_(std::min(networks_to_stack(plan), candidates)), stack_(plan, most_) {}

  void measure(const Batch& block, const WriteCandidate& write, std::span<double> errors) {
    for (std::size_t first = 0; first < errors.size(); first += most_) {
      const std::size_t count = std::min(most_, errors.size() - first);
      stack_.load(count, [&](std::size_t k, std::span<float> weights) { write(first + k, weights); });
      for (std::size_t at = 0; at < block.size; at += kEvaluationChunk) {
        add(part_of(block, at, std::min(at + kEvaluationChunk, block.size)), errors.subspan(first, count));
      }
    }
  }

 private:
  void add(const Batch& piece, std::span<double> errors) {
    const std::size_t width = plan_.widths.back(), each = piece.size * width;
    outputs_.resize(errors.size() * each);
    stack_.predict(piece, outputs_);
    for (std::size_t k = 0; k < errors.size(); ++k) {
      errors[k] += error_sum(plan_.loss, piece, width, std::span(outputs_).subspan(k * each, each));
    }
  }

  const MlpPlan& plan_;
  std::size_t most_;
  StackedMlp stack_;
  Flat outputs_;
};

template <class How>
void measure_blocks(How how, const View& data, const WriteCandidate& write, std::span<double> errors) {
  BatchBuffer buffer;
  for (std::size_t at = 0; at < data.size(); at += kBlock) {
    how.measure(buffer.gather_range(data, at, std::min(at + kBlock, data.size())), write, errors);
  }
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
  Flat& fitness = update[kFitness];
  std::vector<double> errors(fitness.size(), 0.0);
  if (const MlpPlan* plan = plan_of(task.model); plan != nullptr && networks_to_stack(*plan) > 1) {
    measure_blocks(Stacked(*plan, errors.size()), data, write, errors);
  } else {
    measure_blocks(OneByOne(task.model), data, write, errors);
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
