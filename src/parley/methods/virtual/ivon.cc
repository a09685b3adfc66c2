#include "parley/methods/virtual/ivon.h"

#include <algorithm>

#include "parley/gauss/elementary.h"
#include "parley/gauss/loops.h"

namespace parley {

Ivon::Ivon(Variational& model, gauss::ConstNaturalView prior, double lambda, Decay decay)
    : model_(model), prior_(prior), lambda_(static_cast<float>(lambda)), decay_(decay), momentum_(model.gaussians()) {}

void Ivon::step(std::span<const float> gradients, float lr) {
  bias_ *= decay_.gradient;
  const std::size_t count = model_.gaussians();
  const float *by_mean = gradients.data(), *by_rho = by_mean + count, *variance = model_.variances().data();
  const float *xi = prior_.precision.data(), *chi = prior_.shift.data();
  float *mean = model_.means().data(), *rho = model_.rhos().data(), *momentum = momentum_.data();
  const float beta = decay_.gradient, mix = 1.0f - decay_.curvature, lambda = lambda_;
  const auto correction = static_cast<float>(1.0 / (1.0 - bias_));
  gauss::for_each(count, [=](std::size_t i) {
    momentum[i] = beta * momentum[i] + (1.0f - beta) * by_mean[i];
    const float s = 1.0f / (lambda * variance[i]);
    // No further than the curvature itself: where it is nearly nothing, one odd example would make e²/s of it anything.
    const float error = std::clamp(mix * (by_rho[i] / variance[i] + xi[i] / lambda - s), -s, s);
    const float next = s + error + 0.5f * error * error / s;
    mean[i] -= lr * (correction * momentum[i] + (xi[i] * mean[i] - chi[i]) / lambda) / next;
    rho[i] = -0.5f * gauss::log_float(lambda * next);
  });
}

}  // namespace parley
