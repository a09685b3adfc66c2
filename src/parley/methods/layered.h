// A model's layers as matrices, and the packed second moments that belong to them: what structured posteriors share.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "parley/gauss/matrix_product.h"
#include "parley/gauss/sketch.h"
#include "parley/methods/method.h"

namespace parley {

// A layer's weights with the bias, where it has one, as last column: the matrix that A ⊗ B is a metric of.
struct LayerMatrix {
  Layer layer;
  std::size_t inputs_offset = 0;   // of its A among all layers'
  std::size_t outputs_offset = 0;  // of its packed B
  std::size_t rank = 0;            // of the sketch by which its A is known; 0: A is packed whole

  std::size_t rows() const { return layer.out(); }
  std::size_t width() const { return layer.in() + (layer.bias ? 1 : 0); }
  std::size_t size() const { return rows() * width(); }
  const std::string& name() const { return layer.weight.name; }

  // Numbers of its A.
  std::size_t inputs_size() const { return rank > 0 ? sketch_size(width(), rank) : packed_size(width()); }
  template <class T>
  std::span<T> inputs_of(std::span<T> all) const {
    return all.subspan(inputs_offset, inputs_size());
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

class InputSums;

// By how many directions A is known of a layer with so many inputs (the bias among them); 0: A is whole.
using RankOfWidth = std::function<std::size_t(std::size_t width)>;

// All layers that a model shows, in its order; empty when it shows none.
class LayerMatrices {
 public:
  // Layers with more inputs or outputs than `widest` are left out.
  explicit LayerMatrices(std::span<const Layer> shown, std::size_t widest = std::numeric_limits<std::size_t>::max(),
                         const RankOfWidth& rank = {});

  const std::vector<LayerMatrix>& all() const { return layers_; }
  // The one that Model::layers() has at this place; null when it was left out.
  const LayerMatrix* shown_as(std::size_t index) const {
    return places_[index] < layers_.size() ? &layers_[places_[index]] : nullptr;
  }
  // Of all A, and of all packed B; an entry a layer.
  const std::shared_ptr<const Layout>& inputs_layout() const { return inputs_layout_; }
  const std::shared_ptr<const Layout>& outputs_layout() const { return outputs_layout_; }
  std::size_t inputs_size() const { return inputs_layout_->size(); }
  std::size_t outputs_size() const { return outputs_layout_->size(); }

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

  // A of every layer, by one pass over the client's data at the model's weights; to its diagonal goes `ridge` times its
  // own mean. REQUIRES layers whose A is whole.
  void measure_inputs(const ClientTask& task, float ridge, std::span<float> inputs) const;
  // The same pass, added to sums.
  void measure_inputs(const ClientTask& task, InputSums& sums) const;
  std::size_t place_of(const LayerMatrix& layer) const { return static_cast<std::size_t>(&layer - layers_.data()); }

 private:
  std::vector<LayerMatrix> layers_;
  std::vector<std::size_t> places_;  // of each shown layer among layers_; past their end when it was left out
  std::shared_ptr<const Layout> inputs_layout_, outputs_layout_;
};

// The sums behind A: of inputs times themselves, or times the directions of a sketch.
class InputSums {
 public:
  // Layers before `first` are left out. The matrices must outlive it.
  explicit InputSums(const LayerMatrices& matrices, std::size_t first = 0);

  // Of a layer that is sketched: V·A is wanted too, of this V (rows × width).
  void ask_product(const LayerMatrix& layer, std::span<const float> v);
  void add(const LayerPass& pass);
  // The means, where the layers' A lie; to the diagonal of one that is whole goes `ridge` times its own mean.
  void write(float ridge, std::span<float> inputs) const;
  // V·A of what was asked for, in place of V.
  void take_product(const LayerMatrix& layer, std::span<float> v) const;

 private:
  struct Sum {
    Flat values;      // a gram, or products: width × directions
    Flat directions;  // Ω, and behind each of its rows that of Vᵀ
    std::size_t count = 0, rows = 0;
    double trace = 0.0;
  };

  const LayerMatrices& matrices_;
  std::size_t first_;
  std::vector<Sum> sums_;
};

}  // namespace parley
