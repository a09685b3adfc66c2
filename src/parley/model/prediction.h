// What networks predict for the rows of a data set, kept: to average over several of them, and to rank rows by doubt.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "parley/model/model.h"

namespace parley {

// The mean prediction of several networks: of their class probabilities, or of their outputs where the loss is mse.
//
// Order:    add() for every row of the first network, then of the second, … -> outputs().
// Threads:  different rows may be added at the same time.
class MeanPrediction {
 public:
  MeanPrediction(Loss loss, std::size_t rows, std::size_t width);

  // The raw outputs of network number `network`, from 0, for the rows from `begin` on.
  void add(std::size_t network, std::size_t begin, std::span<const float> outputs);

  // As one network would give it, rows × width: logits of the mean probabilities, or mean outputs.
  std::span<const float> outputs() const { return mean_; }
  Loss loss() const { return loss_; }
  std::size_t width() const { return width_; }

 private:
  Loss loss_;
  std::size_t width_;
  Flat mean_;
};

// For each row the probability of all classes but the likeliest, exact however small it is. Throws RunError when a
// prediction is not finite.
std::vector<double> doubts(const MeanPrediction& prediction);

// The area under the ROC curve: the chance that one of `high` lies above one of `low`, ties counting half. REQUIRES
// both non-empty and free of NaN.
double auroc(std::span<const double> high, std::span<const double> low);

}  // namespace parley
