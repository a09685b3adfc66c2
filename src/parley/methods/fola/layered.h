// What the structured posteriors (curvature = input, kfac) share: a model's layers as matrices, the second moments of
// their inputs, and the prior in that metric.
#pragma once

#include <memory>
#include <vector>

#include "parley/gauss/matrix_product.h"
#include "parley/methods/method.h"

namespace parley {

// A layer's weights with the bias, where it has one, as last column: the matrix that A ⊗ B is a metric of.
struct LayerMatrix {
  Layer layer;
  std::size_t inputs_offset = 0;   // of its packed A among all layers'
  std::size_t outputs_offset = 0;  // of its packed B

  std::size_t rows() const { return layer.out(); }
  std::size_t width() const { return layer.in() + (layer.bias ? 1 : 0); }
  std::size_t size() const { return rows() * width(); }
  const std::string& name() const { return layer.weight.name; }

  template <class T>
  std::span<T> inputs_of(std::span<T> packed) const {
    return packed.subspan(inputs_offset, packed_size(width()));
  }
  template <class T>
  std::span<T> outputs_of(std::span<T> packed) const {
    return packed.subspan(outputs_offset, packed_size(rows()));
  }

  // From the flat parameters to the matrix and back.
  template <class T, class Matrix>
  void gather(std::span<const T> flat, Matrix& matrix) const {
    matrix.resize(size());
    const auto weight = layer.weight.of(flat);
    for (std::size_t i = 0; i < rows(); ++i) {
      std::copy_n(weight.begin() + static_cast<std::ptrdiff_t>(i * layer.in()), layer.in(),
                  matrix.begin() + static_cast<std::ptrdiff_t>(i * width()));
      if (layer.bias) matrix[(i + 1) * width() - 1] = layer.bias->of(flat)[i];
    }
  }
  template <class T>
  void scatter(std::span<const T> matrix, std::span<T> flat) const {
    const auto weight = layer.weight.of(flat);
    for (std::size_t i = 0; i < rows(); ++i) {
      std::copy_n(matrix.begin() + static_cast<std::ptrdiff_t>(i * width()), layer.in(),
                  weight.begin() + static_cast<std::ptrdiff_t>(i * layer.in()));
      if (layer.bias) layer.bias->of(flat)[i] = matrix[(i + 1) * width() - 1];
    }
  }
};

class Layered {
 public:
  static std::vector<Option> declared();
  // Throws InputError when the model does not show its layers.
  explicit Layered(const MethodContext& context);

  const std::vector<LayerMatrix>& layers() const { return layers_; }
  std::size_t inputs_size() const { return inputs_layout_->size(); }    // of all packed A
  std::size_t outputs_size() const { return outputs_layout_->size(); }  // of all packed B

  // Calls change(layer, matrix) for each layer's matrix of the flat vector, and puts back what it makes of it.
  template <class T, class Change>
  void change_layers(std::span<T> flat, Change change) const {
    std::vector<T> matrix;
    for (const auto& layer : layers_) {
      layer.gather(std::span<const T>(flat), matrix);
      change(layer, std::span<T>(matrix));
      layer.scatter(std::span<const T>(matrix), flat);
    }
  }

  void start(State& state) const;
  // Local training with the prior of the broadcast.
  void train(const ClientTask& task, Update& update) const;
  // The channel in which a client sends A_n of every layer.
  ChannelSpec inputs_channel(std::string name) const;
  // A_n, by one pass over the client's data at its final weights, with its ridge and reduced to `rank`. Returns how
  // that travels.
  Packed measure_inputs(const ClientTask& task, std::span<float> inputs) const;
  // The server's side: keeps the mean of the clients' A as the next prior.
  void keep(State& state, std::span<const double> inputs) const;
  // One network about theta, each layer with precision examples·A ⊗ I + prior_precision; what is in no layer keeps its
  // value.
  void draw(const State& state, const Posterior::Draw& how, Stream& stream, std::span<float> theta) const;

 private:
  // Eigenvectors of a layer's A that are sent; 0: the packed triangle is shorter.
  std::size_t sent_rank(const LayerMatrix& layer) const;
  Packed reduce(std::span<float> inputs) const;
  void unpack(std::span<const std::byte> packed, std::span<float> inputs) const;

  std::shared_ptr<const Layout> layout_, inputs_layout_, outputs_layout_, vectors_layout_, values_layout_;
  double lambda_;
  float ridge_;
  std::size_t prior_every_, prior_rank_, rank_;
  std::vector<LayerMatrix> layers_;
};

}  // namespace parley
