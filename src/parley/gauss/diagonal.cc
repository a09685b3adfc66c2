#include "parley/gauss/diagonal.h"

#include <algorithm>
#include <cassert>

#include "parley/gauss/loops.h"

namespace parley::gauss {
namespace {

[[maybe_unused]] bool fits(ConstNaturalView a, std::size_t size) {
  return a.precision.size() == size && a.shift.size() == size;
}

}  // namespace

void power(ConstNaturalView a, float t, NaturalView out) {
  assert(fits(a, out.size()) && fits(out, out.size()));
  const float *xi_a = a.precision.data(), *chi_a = a.shift.data();
  float *xi = out.precision.data(), *chi = out.shift.data();
  for_each(out.size(), [=](std::size_t i) {
    xi[i] = t * xi_a[i];
    chi[i] = t * chi_a[i];
  });
}

void add_kl_gradient(ConstNaturalView b, float t, float step, std::span<const float> mean,
                     std::span<const float> variance, std::span<float> by_mean, std::span<float> by_rho) {
  assert(fits(b, mean.size()) && variance.size() == mean.size());
  assert(by_mean.size() == mean.size() && by_rho.size() == mean.size());
  const float *xi = b.precision.data(), *chi = b.shift.data(), *mu = mean.data(), *square = variance.data();
  float *to_mean = by_mean.data(), *to_rho = by_rho.data();
  for_each(mean.size(), [=](std::size_t i) {
    const float stiffness = step * t * std::max(xi[i], 0.0f);
    to_mean[i] = (to_mean[i] + t * (xi[i] * mu[i] - chi[i])) / (1.0f + stiffness);
    to_rho[i] = (to_rho[i] + t * (xi[i] * square[i] - 1.0f)) / (1.0f + 2.0f * stiffness * square[i]);
  });
}

}  // namespace parley::gauss
