// The curvature of the pooled data as the server keeps it: A and B of every layer, packed or A as a sketch, a diagonal
// of the rest.
#pragma once

#include <span>
#include <vector>

#include "parley/gauss/matrix_product.h"
#include "parley/gauss/natural_step.h"
#include "parley/methods/laplace/point.h"

namespace parley {

// A and B of every layer and the rest's diagonal, wherever they lie.
struct CurvatureView {
  std::span<const float> inputs, outputs, rest;
};

class GlobalCurvature {
 public:
  static constexpr const char *kInputs = "inputs", *kOutputs = "outputs", *kRest = "rest";

  // The matrices and the rest must outlive it.
  GlobalCurvature(const LayerMatrices& matrices, const RestOfModel& rest, const LaplaceOptions& options);

  const std::vector<LayerMatrix>& layers() const { return matrices_.all(); }
  // Whether a layer shares its weights between positions.
  bool convolves() const;
  // The channels that clients fill.
  std::vector<ChannelSpec> channels() const;
  void start(State& state) const;
  // How many layers' A do not change with the weights, because their inputs are the data: 1 or 0. A client sends them
  // once.
  std::size_t fixed_layers() const { return fixed_size_ > 0 ? 1 : 0; }
  // How A, with or without the fixed part, and B travel, a number in so many bits. In place, they become what the
  // server will read.
  void pack_inputs(bool with_fixed, std::size_t bits, Update& update) const;
  void pack_outputs(std::size_t bits, Update& update) const;

  // From a round's sum, of which `memory` stays as it was. Of the fixed part it is the mean over all that was ever
  // sent, `fixed_weight` of it now.
  void merge(State& state, const Sum& sum, double fixed_weight, double memory) const;
  // A alone, with B and the rest's diagonal 1: what the structured product knows. Returns the cohort's mean A, its
  // fixed part from the state where not everyone sent it.
  FlatDouble merge_inputs(State& state, const Sum& sum, double fixed_weight) const;

  CurvatureView in(const State& state) const;
  // In place, each from a gradient of the numbers that are trained to (curvature + damping)⁻¹·gradient. Returns the
  // layer whose factors are not positive definite, with nothing defined in `gradients`; null when all went well.
  const LayerMatrix* precondition(const CurvatureView& curvature, double damping,
                                  std::span<const std::span<double>> gradients) const;
  // In place, the other way: (curvature + damping)·step.
  void times(const CurvatureView& curvature, double damping, std::span<double> step) const;
  // ½ Σ tr(B V A Vᵀ): the KL divergence by which a step V is predicted to change the model's predictions.
  double predicted_kl(const CurvatureView& curvature, std::span<const double> step) const;
  // All eigenvalues.
  std::vector<double> spectrum(const CurvatureView& curvature) const;
  // One network from N(theta, (examples·curvature + prior)⁻¹).
  void draw(const State& state, const Posterior::Draw& how, Stream& stream, std::span<float> theta) const;

 private:
  // Where each layer's A or packed B lies, without the layer. Sketches travel as floats, whatever `factor_bits` is.
  struct Block {
    std::size_t offset, size, width;
    bool sketched = false;
    template <class T>
    std::span<T> of(std::span<T> all) const {
      return all.subspan(offset, size);
    }
    void put(ByteBuffer& to, std::size_t bits, std::span<float> all) const;
    void take(ByteReader& from, std::span<float> all) const;
  };
  std::vector<Block> input_blocks(bool with_fixed) const;
  std::vector<Block> output_blocks() const;
  std::vector<float> level_outputs(std::span<float> outputs) const;
  ChannelSpec inputs_channel() const;
  ChannelSpec outputs_channel() const;
  void blend_inputs(State& state, const Sum& sum, double fixed_weight, double memory) const;
  std::vector<double> diagonal(const CurvatureView& curvature) const;

  std::shared_ptr<const Layout> rest_layout_;
  const LayerMatrices& matrices_;
  const RestOfModel& rest_;
  bool kfac_;                   // false: B is its own mean diagonal times I
  std::size_t fixed_size_ = 0;  // of the A that lie before all others
};

}  // namespace parley
