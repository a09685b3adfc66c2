// What local training did; summed over the cohort.
#pragma once

#include <cstddef>

namespace parley {

struct TrainingStats {
  double loss_sum = 0.0;     // over examples, at the weights before each step
  std::size_t examples = 0;  // gradient evaluations
  std::size_t steps = 0;

  void merge(const TrainingStats& other) {
    loss_sum += other.loss_sum;
    examples += other.examples;
    steps += other.steps;
  }
};

}  // namespace parley
