// The layers that a LayerObserver can be shown: torch::nn::Linear and torch::nn::Conv2d which know where to report.
//
// A network that is built of these shows its layers without a line of its own. Nothing may change a layer's outputs in
// place: the gradient there is what is shown.
#pragma once

#include <torch/torch.h>

#include <array>

#include "parley/model/model.h"

namespace parley {

// What the shown layers of one network share.
struct Display {
  LayerObserver observer;
  std::vector<Layer> layers;
  torch::Tensor scratch = torch::empty(0);  // for patches; grown once
};

// The part of a layer that reports its passes; attached to a display by the model that owns the network.
class ShownLayer {
 public:
  virtual ~ShownLayer() = default;
  // False for a layer that is no single product of its inputs and its weight, and is not to be attached.
  virtual bool can_be_shown() const { return true; }
  // From now on this is display.layers[index].
  void attach(Display& display, std::size_t index);

 protected:
  // Shows a pass: at once in prediction, in training as soon as the gradient at its outputs is known.
  void show(const torch::Tensor& inputs, const torch::Tensor& outputs);

 private:
  // One row for each product of the weight with a vector, those of an example next to each other; contiguous.
  virtual torch::Tensor input_rows(const torch::Tensor& inputs, torch::Tensor& scratch) const = 0;
  virtual torch::Tensor output_rows(const torch::Tensor& outputs) const = 0;
  void present(const torch::Tensor& inputs, const torch::Tensor& gradient) const;

  Display* display_ = nullptr;
  std::size_t index_ = 0;
};

// The part of a layer that can be one of Gaussian weights: each output is then drawn by itself, from the mean and
// variance that the weights give it (local reparametrisation, Kingma et al. 2015).
class GaussianLayer {
 public:
  virtual ~GaussianLayer() = default;
  // From now on the layer's own weights are means, and these their variances; `bias` is undefined where there is none.
  // The noise must outlive the layer.
  void spread(torch::Tensor weight, torch::Tensor bias, Stream& noise);

 protected:
  struct Variances {
    torch::Tensor weight, bias;
    Stream* noise;
  };
  const std::optional<Variances>& variances() const { return variances_; }
  torch::Tensor draw(const torch::Tensor& mean, const torch::Tensor& variance) const;

 private:
  std::optional<Variances> variances_;
};

class DenseImpl final : public torch::nn::LinearImpl, public ShownLayer, public GaussianLayer {
 public:
  using LinearImpl::LinearImpl;
  torch::Tensor forward(const torch::Tensor& inputs);

 private:
  torch::Tensor input_rows(const torch::Tensor& inputs, torch::Tensor& scratch) const override;
  torch::Tensor output_rows(const torch::Tensor& outputs) const override;
};
TORCH_MODULE(Dense);

// A product over patches of its inputs. Shown with one group and no dilation, and by zeros where it is padded.
class ConvImpl final : public torch::nn::Conv2dImpl, public ShownLayer, public GaussianLayer {
 public:
  using Conv2dImpl::Conv2dImpl;
  torch::Tensor forward(const torch::Tensor& inputs);
  bool can_be_shown() const override {
    return options.groups() == 1 && *options.dilation() == std::array<std::int64_t, 2>{1, 1};
  }

 private:
  torch::Tensor input_rows(const torch::Tensor& inputs, torch::Tensor& scratch) const override;
  torch::Tensor output_rows(const torch::Tensor& outputs) const override;
};
TORCH_MODULE(Conv);

}  // namespace parley
