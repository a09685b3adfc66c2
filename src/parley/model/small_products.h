// Products of matrices so small, or of so few examples, that oneDNN's copies and calls are felt. On the calling thread
// alone. Every sum goes over the inner index in its order, so the bits depend on the operands alone.
#pragma once

#include <cstddef>

namespace parley {

// The left operand: element (row, k) at data[row·to_row + k·to_inner].
struct Left {
  const float* data;
  std::size_t to_row, to_inner;
};

// C = A·B, where B and C are dense and `columns` wide, a multiple of kLanes.
void multiply_small(std::size_t rows, std::size_t columns, std::size_t inner, const Left& a, const float* b, float* c);
// C += A·B
void add_small_product(std::size_t rows, std::size_t columns, std::size_t inner, const Left& a, const float* b,
                       float* c);

// The most examples that descend() takes; with more of them the pass that it saves is hardly felt.
inline constexpr std::size_t kMostExamples = 64;

// w −= lr·δᵀx for the weights [out, in] of a dense layer, by the gradients at its outputs and its inputs: a step of
// gradient descent in one pass over the weights. With AVX-512 its bits are those of oneDNN's product and a step.
void descend(std::size_t examples, std::size_t out, std::size_t in, const float* deltas, const float* inputs, float lr,
             float* weight);

}  // namespace parley
