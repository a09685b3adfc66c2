// What FeDEC's clients report: the moments of the inputs of every batch norm over their own data, at the broadcast
// model.
//
// One pass in evaluation mode. Weights and normalisation are then the same for all clients, so that a client's mean and
// raw second moment of a norm channel are linear in its class distribution in every layer, which the server's inference
// relies on. Running statistics, collected while training, belong to weights that drift apart, and keep a part of their
// old value.
#pragma once

#include <span>
#include <vector>

#include "parley/methods/method.h"

namespace parley {

class NormReports {
 public:
  // Of the norms that follow a layer which the model shows, with an output for each channel.
  explicit NormReports(const Layout& layout);

  // Means of all channels, then raw second moments; 0: no norm follows a shown layer.
  std::size_t size() const { return 2 * channels_; }
  // With the weights that the model has. Fills all of `moments`.
  void measure(const ClientTask& task, std::span<float> moments) const;

 private:
  struct Place {
    std::size_t layer;   // among those the model shows
    std::size_t offset;  // of its channels
  };
  std::vector<Place> places_;
  std::size_t channels_ = 0;
};

}  // namespace parley
