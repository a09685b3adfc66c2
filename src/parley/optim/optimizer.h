// Local optimisers on flat vectors. One pass over memory a step, no allocation.
//
// Threads:  an instance belongs to one worker.
// Order:    reset(size) -> step*; reset() forgets the state. Between steps the state may be exchanged.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "parley/base/registry.h"
#include "parley/optim/linear_term.h"
#include "parley/tensor/flat.h"

namespace parley {

// What an optimiser remembers between steps: vectors beside the weights, and how many steps it has taken. A mean of
// several clients' states may have a count that is not whole.
struct OptimizerState {
  std::vector<Flat> slots;
  double steps = 0.0;
};

class Optimizer {
 public:
  struct Slot {
    float initial = 0.0f;
    bool square = false;  // a mean or sum of squares: never negative
  };

  virtual ~Optimizer() = default;

  // Fresh slots for `size` parameters.
  void reset(std::size_t size);
  // θ ← θ − update(g), where g = clip(grads) + decay·θ + term. The spans have the size given to reset().
  void step(std::span<float> theta, std::span<const float> grads, const LinearTerm& term, float lr);

  // Whether a step is θ ← θ − lr·grads and nothing else (only sgd remembers nothing). A model may then take it by
  // itself (Model::descend), and count() keeps the count of steps.
  bool plain() const { return slots_.empty() && decay_ == 0.0f && clip_norm_ == 0.0; }
  void count() { state_.steps += 1.0; }

  const std::vector<Slot>& slots() const { return slots_; }
  // For who keeps the state or sends it around; what is put in must have the slots and sizes that reset() gives.
  OptimizerState& state() { return state_; }

 protected:
  // The gradient of one step in its parts.
  struct Parts {
    std::span<const float> grads;
    float scale;  // of the task's gradient: clipping
    float decay;
    const LinearTerm& term;
  };

  // `clip_norm`: the longest that the task's gradient may be; 0 sets no limit.
  Optimizer(std::vector<Slot> slots, double decay, double clip_norm);

 private:
  // The pass over memory; the step has been counted.
  virtual void apply(std::span<float> theta, const Parts& gradient, float lr) = 0;

  std::vector<Slot> slots_;
  OptimizerState state_;
  float decay_;
  double clip_norm_;
};

// `client` are the resolved keys of [client].
using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(const Options& client)>;
using OptimizerRegistry = Registry<MakeOptimizer>;

// Every optimiser, in one list.
OptimizerRegistry optimizers();

}  // namespace parley
