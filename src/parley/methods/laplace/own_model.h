// A client's own model: the product of the posterior and the client's data, once more, in the last layer alone, where
// the curvature is nearly exact. Natural steps on its own data, in the metric of the posterior; that layer's A and B
// are sent down for it.
#pragma once

#include "parley/methods/laplace/point.h"

namespace parley {

class OwnModel {
 public:
  // All must outlive it. Throws InputError when it is asked for and there is no layer.
  OwnModel(const LayerMatrices& matrices, const RestOfModel& rest, const LaplaceOptions& options);

  void start(State& state) const;
  // The curvature has changed.
  void send(State& state) const;
  // Puts it into the task's model; before anything is known of the curvature, that is the shared one.
  void load(const ClientTask& task) const;

 private:
  bool wanted() const { return options_.personal_steps > 0; }
  const LayerMatrix& last() const { return matrices_.all().back(); }

  const LayerMatrices& matrices_;
  const RestOfModel& rest_;
  const LaplaceOptions& options_;
};

}  // namespace parley
