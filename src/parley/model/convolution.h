// One convolution over images with their channels last ([images, height, width, channels]), by Winograd's filtering
// where that suits it (winograd.h), otherwise on oneDNN's direct kernels: they multiply nothing by the zeros of a
// padding, and need no copy of the patches, so they take half the time of products over patches. On the calling thread
// alone, as kernels.h says.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

namespace parley {

struct ConvolutionShape {
  std::size_t in, out;  // channels
  std::size_t kernel, padding;
  std::size_t height, width;  // of the inputs

  std::size_t out_height() const { return height + 2 * padding - kernel + 1; }
  std::size_t out_width() const { return width + 2 * padding - kernel + 1; }
  std::size_t inputs() const { return height * width * in; }  // of one image
  std::size_t positions() const { return out_height() * out_width(); }
  std::size_t outputs() const { return positions() * out; }
};

class Winograd;

// Weights are [out, in, kernel, kernel], row-major as in PyTorch. `bias` may be null, in all calls or in none.
class Convolution {
 public:
  explicit Convolution(const ConvolutionShape& shape);
  ~Convolution();
  Convolution(Convolution&&) noexcept;

  void forward(std::size_t images, const float* inputs, const float* weight, const float* bias, float* outputs);
  // The gradients at the weight, the bias and the inputs, by those at the outputs. `by_inputs` may be null, or the
  // inputs themselves.
  void backward(std::size_t images, const float* inputs, const float* deltas, const float* weight, float* by_weight,
                float* by_bias, float* by_inputs);

  const ConvolutionShape& shape() const { return shape_; }

 private:
  class Passes;  // what oneDNN has made for a number of images
  Passes& passes(std::size_t images, bool with_bias);

  ConvolutionShape shape_;
  std::unique_ptr<Winograd> winograd_;  // null: it does not suit
  std::map<std::size_t, std::unique_ptr<Passes>> passes_;
};

// The patches that a convolution multiplies, one row a position: rows of [in, kernel, kernel], zeros where it is
// padded.
void copy_patches(const ConvolutionShape& shape, std::size_t images, const float* inputs, float* patches);

}  // namespace parley
