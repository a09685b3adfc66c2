// The diagonal of the empirical Fisher information, from squared gradients.
#pragma once

#include <span>

#include "parley/methods/method.h"
#include "parley/model/curvature.h"

namespace parley {

// Averages squared gradients, examples weighing alike: of mini-batch means, or of single examples (Eq. 13–15 of Liu &
// Zheng 2021 to the letter).
class FisherMeter {
 public:
  enum class Of { minibatch, per_sample };
  // Adds into `squares`, which starts at zero and has the layout's trainable size. For per_sample it observes the model
  // until it is destroyed.
  FisherMeter(Of of, Model& model, std::span<float> squares);
  ~FisherMeter();
  FisherMeter(const FisherMeter&) = delete;
  FisherMeter& operator=(const FisherMeter&) = delete;

  // After each backward(), with its gradient.
  void add(std::span<const float> gradients, std::size_t examples);
  // Divides by the examples seen.
  void finish();

  // Of method.gradient. Throws InputError for per_sample when the model has trained weights in no layer that it shows.
  static Of of(const MethodContext& context);

 private:
  Of of_;
  Model& model_;
  std::span<float> squares_;
  std::size_t examples_ = 0;
};

// One pass over the client's data at the model's weights: the offline form.
void measure_fisher(FisherMeter::Of of, const ClientTask& task, std::span<float> squares);

}  // namespace parley
