#include "parley/methods/fedpa/posterior_samples.h"

#include <cassert>
#include <numeric>

namespace parley {
namespace {

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

}  // namespace

void PosteriorSamples::solve(FlatDouble& x) const {
  // The products are with x as it came in: the changes add up, they are not applied one after the other.
  std::vector<double> factors;
  for (const auto& [v, c] : changes_) factors.push_back(c * dot(v, x));
  for (std::size_t k = 0; k < changes_.size(); ++k) {
    const double* v = changes_[k].v.data();
    for (std::size_t i = 0; i < x.size(); ++i) x[i] -= factors[k] * v[i];
  }
}

void PosteriorSamples::add(std::span<const double> sample) {
  const auto l = static_cast<double>(++count_);
  FlatDouble u(sample.begin(), sample.end());  // u_ℓ = x_ℓ − x̄_{ℓ−1}
  for (std::size_t i = 0; i < u.size(); ++i) {
    u[i] -= mean_[i];
    mean_[i] += u[i] / l;
  }
  if (count_ == 1) return;
  // M_ℓ = M_{ℓ−1} + (ℓ − 1)/ℓ·u uᵀ, inverted by Sherman and Morrison.
  const double gamma = rho_ * (l - 1.0) / l;
  FlatDouble v = u;
  solve(v);
  const double c = gamma / (1.0 + gamma * dot(u, v));
  changes_.push_back({std::move(v), c});
}

FlatDouble PosteriorSamples::delta(std::span<const float> start) const {
  assert(count_ > 0 && start.size() == mean_.size());
  FlatDouble x(start.begin(), start.end());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] -= mean_[i];
  solve(x);
  const double inverse = 1.0 + static_cast<double>(count_ - 1) * rho_;  // 1/ρ_ℓ
  for (double& value : x) value *= inverse;
  return x;
}

}  // namespace parley
