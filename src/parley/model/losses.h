// The losses, with their gradients at the outputs of a model.
//
// Each function takes the raw outputs of a batch (batch.size × width, row-major), returns the mean
// loss over the rows, and overwrites the outputs with the gradient of that mean: one pass, no
// second buffer.
#pragma once

#include <cstddef>
#include <span>

#include "parley/data/dataset.h"
#include "parley/model/model.h"

namespace parley {

// −log softmax(z)_y. The batch must have labels.
double cross_entropy(const Batch& batch, std::size_t width, std::span<float> outputs);
// Mean over the outputs of (z − t)², where t are the targets, or the one-hot labels.
double squared_error(const Batch& batch, std::size_t width, std::span<float> outputs);

inline double loss_and_gradient(Loss loss, const Batch& batch, std::size_t width, std::span<float> outputs) {
  return loss == Loss::cross_entropy ? cross_entropy(batch, width, outputs) : squared_error(batch, width, outputs);
}

// Turns a row of logits into probabilities and returns log Σ exp(z).
double softmax(std::span<float> row);

}  // namespace parley
