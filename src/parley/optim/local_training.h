// The loop that every method's client half runs: batches -> backward -> one fused step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "parley/base/random.h"
#include "parley/data/dataset.h"
#include "parley/model/model.h"
#include "parley/optim/optimizer.h"
#include "parley/update/training.h"

namespace parley {

// [client] without the optimiser's own options.
struct LocalOptions {
  std::size_t epochs = 1;
  std::size_t batch = 32;  // 0: the whole of the client's data
  double lr = 0.01;
  // Of the learning rate; the three multiply, and each is neutral by default.
  double lr_decay = 1.0;  // factor after every lr_decay_every rounds
  std::size_t lr_decay_every = 1;
  double lr_time_decay = 0.0;   // 1/(1 + φt) after t rounds
  std::size_t lr_cosine = 0;    // rounds of half a cosine; 0: none
  double lr_cosine_end = 0.01;  // where it ends
  bool shuffle = true;
  std::size_t max_steps = 0;  // 0: no limit

  static std::vector<Option> declared();
  explicit LocalOptions(const Options& client);
  LocalOptions() = default;
  double lr_in(std::size_t round) const;  // rounds count from 1
  // The steps of a client in a round.
  std::size_t steps(std::size_t examples) const;
};

// The order of the batches: each epoch visits every position once; the last batch of an epoch may be short.
class BatchOrder {
 public:
  BatchOrder(std::size_t examples, const LocalOptions& options, Stream stream);
  // The positions of the next batch; empty when training is over.
  std::span<const std::uint32_t> next();

 private:
  std::vector<std::uint32_t> order_;
  std::size_t batch_, epochs_left_, steps_left_, cursor_;
  bool shuffle_;
  Stream stream_;
};

// Where a method looks into local training. Empty ones cost nothing.
struct LocalHooks {
  // The task's gradient of a step, before the step is taken (online Fisher).
  std::function<void(std::span<const float> gradients, std::size_t examples)> before_step;
  // Adds to the task's gradient what no LinearTerm can say; comes after before_step. client.clip_norm clips the sum.
  std::function<void(std::span<float> gradients)> add_gradient;
  // Takes the step in the optimiser's place, from the task's gradient alone.
  std::function<void(std::span<const float> gradients, float lr)> step;
  // After a step, when the gradients may be gone; `steps` counts from 1 in this client's round.
  std::function<void(std::size_t steps)> after_step;

  bool look_at_gradients() const { return before_step || add_gradient || step; }
};

// One a worker thread: buffers and optimiser, kept from client to client.
class LocalTrainer {
 public:
  explicit LocalTrainer(std::unique_ptr<Optimizer> optimizer) : optimizer_(std::move(optimizer)) {}

  // Trains the model in place. Throws RefusedUpdate at the first loss that is not finite. The optimiser starts from
  // `state` and leaves there what it ended with; without one it starts afresh.
  TrainingStats train(Model& model, const View& data, const LocalOptions& options, double lr, Stream batches,
                      const LinearTerm& term = {}, const LocalHooks& hooks = {}, OptimizerState* state = nullptr);

  // The gradient of each batch of one pass over the data, in order, at the model's weights; no steps.
  void for_each_gradient(Model& model, const View& data, std::size_t batch,
                         const std::function<void(std::span<const float> gradients, std::size_t examples)>& visit);

  // Shows all of the data to the model in evaluation mode, for whoever observes it.
  void show(Model& model, const View& data);

  // Mean loss and gradient over all of the data at the model's weights; the gradient is valid until the next call.
  struct FullGradient {
    double loss;
    std::span<const float> gradient;
  };
  FullGradient full_gradient(Model& model, const View& data);

 private:
  double backward(Model& model, const View& data, std::span<const std::uint32_t> positions, std::size_t step);
  std::optional<double> descend(Model& model, const View& data, std::span<const std::uint32_t> positions, float lr,
                                std::size_t step);
  std::span<float> gradients_of(Model& model);

  std::unique_ptr<Optimizer> optimizer_;
  BatchBuffer buffer_;
  Flat accumulated_, outputs_;
  bool use_accumulated_ = false;
};

}  // namespace parley
