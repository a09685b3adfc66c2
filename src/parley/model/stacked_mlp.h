// Many small dense networks of one plan on the same examples. Their first layers read the same inputs, so they are one
// wide product instead of many narrow ones; the layers behind are each network's own.
#pragma once

#include <functional>
#include <span>

#include "parley/model/mlp.h"
#include "parley/tensor/flat.h"

namespace parley {

// How many networks are worth a stack: enough that the first product is wide. 1: they are wide by themselves.
std::size_t networks_to_stack(const MlpPlan& plan);

// Order:    load() -> predict()*.
// Threads:  as a Model: one instance a worker.
class StackedMlp {
 public:
  StackedMlp(const MlpPlan& plan, std::size_t most);

  using Write = std::function<void(std::size_t network, std::span<float> weights)>;
  // Lets `write` fill the weights of each of `networks`, at most `most`, in the order of the plan's layout.
  void load(std::size_t networks, const Write& write);
  // What Model::predict would give for each network, one behind the other: networks × batch.size × outputs.
  void predict(const Batch& batch, std::span<float> outputs);

 private:
  // The layers behind the first.
  void forward_one(std::size_t network, std::size_t rows, float* outputs);
  std::span<const float> part(std::size_t network, std::size_t entry) const;

  MlpPlan plan_;
  Layout layout_;
  std::size_t networks_ = 0;
  Flat weights_;               // most × layout
  Flat first_, first_biases_;  // of all networks, as one layer
  Flat wide_;                  // its activations, rows × networks·width
  Flat here_, next_;           // of one network behind it
};

}  // namespace parley
