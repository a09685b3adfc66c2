// What a layer's pass over a batch says about curvature, in batched products instead of one backward an example.
#pragma once

#include <span>

#include "parley/model/model.h"

namespace parley {

// Σ over examples of the squared gradient of that example's own loss, added to the layer's places in `squares`
// (layout order). A dense layer's gradient is an outer product, so its square is the product of squares: one matrix
// product for the whole batch. REQUIRES a pass of backward().
void add_squared_gradients(const LayerPass& pass, std::span<float> squares);

// Σ over rows of ã ãᵀ, with ã the layer's input and, if it has a bias, a 1 behind it, added to the lower triangle of
// `gram` (row-major). Gives the rows back that were added: of a convolution's many patches, some of each example.
std::size_t add_input_gram(const LayerPass& pass, std::span<float> gram);

// The same sum times some directions, A·M with M width × `count` (row-major), added to `products` (likewise), by two
// thin products instead of A; and Σ ‖ã‖², A's trace, to `trace`.
std::size_t add_input_products(const LayerPass& pass, std::span<const float> directions, std::size_t count,
                               std::span<float> products, double& trace);

// Σ over rows of δ δᵀ, with δ the gradient of an example's own loss at the layer's outputs, added to the lower triangle
// of `gram` (out × out, row-major). REQUIRES a pass of backward(). `weights`, one an example, weigh their rows;
// none: 1.
void add_output_gram(const LayerPass& pass, std::span<float> gram, std::span<const float> weights = {});

// The pass with one row for each example: the mean of its inputs and, of a backward(), the sum of its deltas over the
// positions that share the weights (K-FAC-reduce, Eschenhagen et al. 2023). Its numbers live in the two buffers.
LayerPass reduce_positions(const LayerPass& pass, Flat& inputs, Flat& deltas);

}  // namespace parley
