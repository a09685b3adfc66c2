// Fully connected networks on oneDNN: `linear`, `logistic` and `mlp` are one class with none or
// some hidden layers.
//
// Layers are named fc1, fc2, …: fc1.weight [out, in], fc1.bias [out], row-major as in PyTorch, so
// that weights go back and forth by name. The bits of a step depend on its inputs alone, not on the
// thread it runs on.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "parley/model/model.h"

namespace parley {

enum class Activation { relu, sigmoid, tanh };

// What the options of `mlp` say about a task; shared with the LibTorch backend.
struct MlpPlan {
  std::vector<std::size_t> widths;  // inputs, hidden layers, outputs
  Activation activation = Activation::relu;
  double dropout = 0.0;  // of hidden activations, in [0, 1); survivors are scaled by 1/(1 − dropout)
  Loss loss = Loss::cross_entropy;

  std::size_t layers() const { return widths.size() - 1; }
  Layout layout() const;
};

// Fills a mask with 0 (probability `dropout`) and 1/(1 − dropout). Every backend draws by this, so
// all see one noise.
void draw_dropout(Stream& noise, double dropout, std::span<float> mask);

MlpPlan plan_mlp(const Options& options, const Task& task);
std::unique_ptr<Model> make_native_mlp(const MlpPlan& plan);
// What such a network was made from; null for any other model.
const MlpPlan* plan_of(const Model& model);
// Dense layers of Gaussian weights with local reparametrisation (Kingma et al. 2015): not the weights of a batch but
// each example's outputs are drawn, which has less noise and costs two products in place of one.
//
// With a private part, each client has a second network beside the shared one, fed by it at every layer (Kiss 2021,
// Eq. 3.14): h_l = act(U_l h_{l−1} + α_l V_l a_l + b_l), where a_l are the shared network's activations, and at the
// last layer its outputs. It starts with V = I, α = 1 and U = b = 0 at the last layer, so that a new client predicts
// about what the server does. Throws InputError for a plan with dropout.
std::unique_ptr<Variational> make_variational_mlp(const MlpPlan& plan, bool with_private);

void add_linear(ModelRegistry& registry);
void add_logistic(ModelRegistry& registry);
void add_mlp(ModelRegistry& registry);

}  // namespace parley
