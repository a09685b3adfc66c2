// What fola's structured posteriors (curvature = input, kfac) share: the second moments of each layer's inputs, and the
// prior in that metric.
#pragma once

#include <memory>
#include <vector>

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

  template <class T, class Change>
  void change_layers(std::span<T> flat, Change change) const {
    matrices_.change_layers(flat, std::move(change));
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

  LayerMatrices matrices_;
  std::shared_ptr<const Layout> vectors_layout_, values_layout_;
  double lambda_;
  float ridge_;
  std::size_t prior_every_, prior_rank_, rank_;
};

}  // namespace parley
