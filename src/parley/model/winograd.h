// 5 × 5 convolutions by Winograd's minimal filtering F(4 × 4, 5 × 5) (Lavin and Gray 2016): tiles of 8 × 8 inputs and
// the kernel are transformed, and in place of 400 products for sixteen outputs there are 64. Its rounding is about ten
// times that of a sum of products: 2.5e-6 of the outputs at 32 channels, where F(2 × 2, 5 × 5) has 1.5e-6 and 2.25
// times the products. The points 1/2 and 2 beside 1 are what keeps it so small.
//
// Images have their channels last, as in convolution.h.
#pragma once

#include <cstddef>

#include "parley/model/convolution.h"
#include "parley/tensor/flat.h"

namespace parley {

class Winograd {
 public:
  // Whether it is the faster way: 5 × 5, and channels enough for the products to outweigh the transforms.
  static bool suits(const ConvolutionShape& shape);

  explicit Winograd(const ConvolutionShape& shape);

  void forward(std::size_t images, const float* inputs, const float* weight, const float* bias, float* outputs);
  // As Convolution's.
  void backward(std::size_t images, const float* inputs, const float* deltas, const float* weight, float* by_weight,
                float* by_bias, float* by_inputs);

 private:
  static constexpr std::size_t kPlaces = 64;  // of a transformed tile

  template <class Use>
  void for_blocks(std::size_t images, Use use) const;
  void transform_weight(const float* weight, std::size_t rows, std::size_t to_row, std::size_t columns,
                        std::size_t to_column);
  // Between an image and its tiles, which are those at `tiles` of each place.
  void transform_inputs(const float* image, float* tiles);
  void transform_deltas(const float* deltas, float* tiles) const;
  void outputs_from_products(const float* tiles, const float* bias, float* outputs) const;
  void sum_tiles(const float* tiles);
  void inputs_from_products(const float* tiles, float* image);
  void weight_from_products(float* weight) const;
  void multiply_weight_gradient(std::size_t tiles, bool first);
  void multiply_input_gradient(std::size_t tiles);

  ConvolutionShape shape_;
  std::size_t rows_, columns_, tiles_;  // of tiles in an image
  std::size_t images_at_once_;
  // Floats from place to place: a line more than needed, because powers of two would all fall into one set of the
  // cache.
  std::size_t weight_step_, input_step_, output_step_;
  std::size_t half_step_;    // from row to row of half_
  Flat weight_, by_weight_;  // places × in × out; for the gradient at the inputs, places × out × in
  Flat inputs_, outputs_;    // of some images: places × tiles × channels
  Flat half_, by_half_;      // a row of tiles, transformed one way: 8 × columns × channels; zeros beside the image
  Flat zeros_;               // a row outside of the image
};

}  // namespace parley
