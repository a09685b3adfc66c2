// What fola's structured posteriors (curvature = input, kfac) share: the second moments of each layer's inputs, their
// memory over the rounds, and the prior in that metric.
//
// In round r a client's precision is, as Eq. 17 has it for the diagonal,
//
//   P_n = (A_n + ridge_r)/r + (r−1)/r·A_S
//
// with A_S the mean of all earlier rounds' and cohorts' A. What is in A_S has everyone's vote alike, so the product
// becomes the plain average as r grows. It has to: over many rounds a solve in the last cohort's metric alone amplifies
// directions that its inputs hardly have, and they grow from round to round. A prior in the same metric cannot hold
// them.
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "parley/gauss/low_rank.h"
#include "parley/methods/layered.h"

namespace parley {

class Layered {
 public:
  static std::vector<Option> declared();
  // Throws InputError when the model does not show its layers.
  explicit Layered(const MethodContext& context);

  const std::vector<LayerMatrix>& layers() const { return matrices_.all(); }
  std::size_t inputs_size() const { return matrices_.inputs_size(); }    // of all packed A
  std::size_t outputs_size() const { return matrices_.outputs_size(); }  // of all packed B
  const std::shared_ptr<const Layout>& outputs_layout() const { return matrices_.outputs_layout(); }
  bool remembers() const { return memory_; }

  template <class T, class Change>
  void change_layers(std::span<T> flat, Change change) const {
    matrices_.change_layers(flat, std::move(change));
  }

  // Adds `sign` times the centre to `flat` where layers are, and leaves the rest alone.
  template <class T>
  void shift_layers(std::span<const float> centre, T sign, std::span<T> flat) const {
    const auto shift = [&](const LayoutEntry& entry) {
      const auto to = entry.of(flat);
      const auto from = entry.of(centre);
      for (std::size_t i = 0; i < to.size(); ++i) to[i] += sign * static_cast<T>(from[i]);
    };
    for (const auto& matrix : layers()) {
      shift(matrix.layer.weight);
      if (matrix.layer.bias) shift(*matrix.layer.bias);
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
  // How much of P_n is the client's own, 1/r, and how much everyone's memory.
  struct Shares {
    double own, memory;
  };
  Shares shares(std::size_t round) const;
  // What the ridge of this round has beyond the one that is in A already.
  template <class T>
  double further_ridge(const LayerMatrix& layer, std::size_t round, std::span<const T> inputs) const {
    double trace = 0.0;
    for (std::size_t i = 0, at = 0; i < layer.width(); ++i, at += i + 1) trace += static_cast<double>(inputs[at]);
    const double mean = trace / static_cast<double>(layer.width()) / (1.0 + static_cast<double>(ridge_));
    return static_cast<double>(ridge_) * (std::pow(static_cast<double>(round), ridge_growth_) - 1.0) * mean;
  }
  // A layer's A_S as everyone knows it: `from` is the broadcast, or the state that it was made of.
  template <class From>
  LowRank memory(const LayerMatrix& layer, const From& from) const {
    return memory_of(layer, from.at("prior_vectors"), from.at("prior_values"));
  }
  // P_n from the layer's A_n; from the clients' mean of A their mean of P.
  template <class T, class From>
  std::vector<double> precision(const LayerMatrix& layer, std::size_t round, std::span<const T> inputs,
                                const From& from) const {
    const auto [own, shared] = shares(round);
    const double ridge = further_ridge(layer, round, inputs);
    std::vector<double> result(inputs.begin(), inputs.end());
    for (std::size_t i = 0, at = 0; i < layer.width(); ++i, at += i + 1) result[at] += ridge;
    std::vector<float> before(result.size(), 0.0f);
    if (shared > 0.0) expand(memory(layer, from), layer.width(), before);
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = own * result[i] + shared * double{before[i]};
    return result;
  }
  // The server's side: takes the mean of the clients' A into the memory, which is the next prior.
  void keep(State& state, std::size_t round, std::span<const double> inputs) const;
  // One network about theta, each layer with precision examples·A ⊗ I + prior_precision; what is in no layer keeps its
  // value.
  void draw(const State& state, const Posterior::Draw& how, Stream& stream, std::span<float> theta) const;

 private:
  // Eigenvectors of a layer's A that are sent; 0: the packed triangle is shorter.
  std::size_t sent_rank(const LayerMatrix& layer) const;
  Packed reduce(std::span<float> inputs) const;
  void unpack(std::span<const std::byte> packed, std::span<float> inputs) const;
  LowRank memory_of(const LayerMatrix& layer, std::span<const float> vectors, std::span<const float> values) const;
  std::vector<ProximalStep> prior_steps(const Broadcast& broadcast, double strength) const;
  void pull(const ClientTask& task, std::vector<ProximalStep>& steps) const;

  LayerMatrices matrices_;
  std::shared_ptr<const Layout> vectors_layout_, values_layout_;
  double lambda_;
  float ridge_;
  double ridge_growth_;
  bool memory_;
  std::size_t prior_every_, prior_rank_, rank_;
};

}  // namespace parley
