// Local optimisers on flat vectors. One pass over memory a step, no allocation.
//
// Threads:  an instance belongs to one worker.
// Order:    reset(size) -> step*; reset() forgets the slots and the step count.
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

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Fresh slots for `size` parameters.
  void reset(std::size_t size);
  // θ ← θ − update(g), where g = grads + decay·θ + term. The spans have the size given to reset().
  virtual void step(std::span<float> theta, std::span<const float> grads, const LinearTerm& term, float lr) = 0;

  // What the optimiser remembers between steps, for methods that send it around or keep it at the client.
  std::span<Flat> slots() { return slots_; }
  std::size_t steps() const { return steps_; }

 protected:
  Optimizer(std::size_t slot_count, const Options& client);

  std::vector<Flat> slots_;
  std::size_t steps_ = 0;
  float decay_;
  float initial_slot_ = 0.0f;
};

// `client` are the resolved keys of [client].
using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(const Options& client)>;
using OptimizerRegistry = Registry<MakeOptimizer>;

// Every optimiser, in one list.
OptimizerRegistry optimizers();

}  // namespace parley
