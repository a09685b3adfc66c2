#include "parley/gauss/solve.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "parley/gauss/loops.h"

namespace parley::gauss {
namespace {

// Half a unit in the last place of a float, with room for the double sums' own rounding; and the smallest float.
constexpr double kFloatRounding = 0x1.01p-24, kFloatUnderflow = 0x1p-149;

void solve_to_average(const ProductSums& sums, double epsilon, MeanView out) {
  const double *xi = sums.precision.data(), *chi = sums.precision_mean.data(), *mu = sums.mean.data();
  float *mean = out.mean.data(), *precision = out.precision.data();
  const double weight = sums.weight, ridge = epsilon * weight, underflow = kFloatUnderflow * weight;
  for_each(out.size(), [=](std::size_t i) {
    const double average = mu[i] / weight;
    const double excess = chi[i] - xi[i] * average;  // Σ wP(μ − average)
    const double total = xi[i] + ridge;
    const bool noise = std::abs(excess) <= kFloatRounding * std::abs(chi[i]) + underflow;
    // average + excess/total = (Σ wPμ + εΣ wμ)/(Σ wP + εΣ w)
    mean[i] = static_cast<float>(average + (noise ? 0.0 : excess) / (total > 0.0 ? total : 1.0));
    precision[i] = static_cast<float>(xi[i] / weight);
  });
}

void solve_to_zero(const ProductSums& sums, double epsilon, MeanView out) {
  const double *xi = sums.precision.data(), *chi = sums.precision_mean.data();
  float *mean = out.mean.data(), *precision = out.precision.data();
  const double weight = sums.weight, ridge = epsilon * weight;
  for_each(out.size(), [=](std::size_t i) {
    const double total = xi[i] + ridge;
    mean[i] = static_cast<float>(chi[i] / (total > 0.0 ? total : 1.0));
    precision[i] = static_cast<float>(xi[i] / weight);
  });
}

}  // namespace

void solve_product(const ProductSums& sums, double epsilon, ZeroPrecision rule, MeanView out) {
  assert(sums.precision.size() == out.size() && sums.precision_mean.size() == out.size());
  assert(out.mean.size() == out.size() && sums.weight > 0.0 && epsilon >= 0.0);
  if (rule == ZeroPrecision::shrink) return solve_to_zero(sums, epsilon, out);
  assert(sums.mean.size() == out.size());
  solve_to_average(sums, epsilon, out);
}

void solve_mixture(const MixtureSums& sums, double least_variance, MeanView out) {
  assert(sums.mean.size() == out.size() && sums.square.size() == out.size() && out.mean.size() == out.size());
  assert((sums.centre.empty() || sums.centre.size() == out.size()) && sums.weight > 0.0 && least_variance > 0.0);
  const double *mu = sums.mean.data(), *square = sums.square.data(), weight = sums.weight;
  float *mean = out.mean.data(), *precision = out.precision.data();
  const auto about = [=](auto centre) {
    for_each(out.size(), [=](std::size_t i) {
      const double average = mu[i] / weight, d = average - centre(i);
      const double variance = std::max(square[i] / weight - d * d, least_variance);  // Eq. 6
      mean[i] = static_cast<float>(average);
      precision[i] = static_cast<float>(1.0 / variance);
    });
  };
  if (sums.centre.empty()) return about([](std::size_t) { return 0.0; });
  about([c = sums.centre.data()](std::size_t i) { return static_cast<double>(c[i]); });
}

}  // namespace parley::gauss
