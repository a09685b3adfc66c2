// What the nodes hold, and one visit's training there.
#pragma once

#include <vector>

#include "parley/engine/experiment.h"
#include "parley/engine/workers.h"

namespace parley {

// Every node's rows: those to train on, and those that visitors are tested on.
class NodeData {
 public:
  explicit NodeData(const Experiment& experiment);

  View train(std::size_t node) const { return train_.view(*data_, node); }
  View test(std::size_t node) const { return test_.view(*data_, node); }
  std::size_t steps(std::size_t node) const { return local_.steps(train_.clients[node].size()); }
  const LocalOptions& local() const { return local_; }

 private:
  const Dataset* data_;
  LocalOptions local_;
  Partition train_, test_;
};

// Bytes of a model on its way from node to node.
std::size_t model_bytes(const Experiment& experiment);

// A client side's answer at a node, to the weights of `state`. Leaves the trained weights in the model, which is the
// side's own unless another is given. Throws RefusedUpdate.
struct NodeTraining {
  std::size_t round;
  std::size_t node;
  std::uint64_t seed;
  const State& state;
  Model* model = nullptr;
};
Update train_at(const NodeTraining& what, const NodeData& nodes, ClientSide& side);

}  // namespace parley
