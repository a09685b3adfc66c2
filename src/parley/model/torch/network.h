// A torch::nn network as a Model: its parameters and buffers become views of the flat weights, by the names and in the
// order in which the network registered them.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <optional>
#include <string>

#include "parley/model/torch/torch_model.h"

namespace parley {

// Built of torch::nn modules, Dense and Conv (shown_layers.h) among them for the layers to be shown. The weights that
// torch::nn draws at construction are not used: initialise() overwrites them.
class Network : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(const torch::Tensor& inputs) = 0;
  // Answers of a training step that are not forward()'s, each with its label; nothing: forward() gives them.
  virtual std::optional<Graded> grade(const torch::Tensor& /*inputs*/, std::span<const std::int32_t> /*labels*/) {
    return std::nullopt;
  }
  // The source of noise in training; see Model::reseed.
  virtual void reseed(const Stream& /*noise*/) {}
  // A new network of this kind with a client's own beside it (pair.h); null: there is none.
  virtual std::shared_ptr<Network> with_private() const { return nullptr; }
};

// `task.input_shape` is the shape that forward() sees, behind the batch extent. `name` is for messages.
std::unique_ptr<Model> make_network_model(std::string name, std::shared_ptr<Network> network, const Task& task);

}  // namespace parley
