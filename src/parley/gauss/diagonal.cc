#include "parley/gauss/diagonal.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>
#include <numbers>

#include "parley/base/errors.h"
#include "parley/gauss/loops.h"

namespace parley::gauss {
namespace {

constexpr double kLogTwoPi = 1.8378770664093454836;
// Elements of many inputs are combined through a buffer of this many doubles, which stays in the first-level cache.
constexpr std::size_t kBlock = 512;

double wide(float x) {
  return static_cast<double>(x);
}
float narrow(double x) {
  return static_cast<float>(x);
}

[[maybe_unused]] bool fits(ConstNaturalView a, std::size_t size) {
  return a.precision.size() == size && a.shift.size() == size;
}
[[maybe_unused]] bool fits(ConstMeanView a, std::size_t size) {
  return a.precision.size() == size && a.mean.size() == size;
}

// Element i in double, whichever form it is kept in.
struct NaturalReader {
  const float *xi, *chi;
  explicit NaturalReader(ConstNaturalView a) : xi(a.precision.data()), chi(a.shift.data()) {}
  double precision(std::size_t i) const { return wide(xi[i]); }
  double mean(std::size_t i) const { return wide(chi[i]) / wide(xi[i]); }
};
struct MeanReader {
  const float *mu, *xi;
  explicit MeanReader(ConstMeanView a) : mu(a.mean.data()), xi(a.precision.data()) {}
  double precision(std::size_t i) const { return wide(xi[i]); }
  double mean(std::size_t i) const { return wide(mu[i]); }
};

template <class Reader>
double kl_of(std::size_t size, Reader a, Reader b) {
  return 0.5 * sum(size, [=](std::size_t i) {
           const double r = b.precision(i) / a.precision(i), d = a.mean(i) - b.mean(i);
           // r − 1 is exact near r = 1, where the two terms nearly cancel: r − 1 − ln r ≈ (r − 1)²/2.
           return ((r - 1.0) - log_normal_number(r)) + b.precision(i) * d * d;
         });
}

template <class Reader>
double log_density_of(std::span<const float> theta, Reader a) {
  const float* t = theta.data();
  return 0.5 * sum(theta.size(), [=](std::size_t i) {
           const double d = wide(t[i]) - a.mean(i);
           return (log_normal_number(a.precision(i)) - kLogTwoPi) - a.precision(i) * d * d;
         });
}

using Buffer = std::array<double, kBlock>;

// to[j] += a · from[j]
void accumulate(Buffer& to, double a, std::span<const float> from) {
  for (std::size_t j = 0; j < from.size(); ++j) to[j] += a * wide(from[j]);
}

}  // namespace

void to_natural(ConstMeanView from, NaturalView to) {
  assert(fits(from, to.size()) && fits(to, to.size()));
  const float *mu = from.mean.data(), *xi = from.precision.data();
  float *xi_out = to.precision.data(), *chi_out = to.shift.data();
  for_each(to.size(), [=](std::size_t i) {
    const float precision = xi[i], mean = mu[i];
    chi_out[i] = precision * mean;
    xi_out[i] = precision;
  });
}

void to_mean(ConstNaturalView from, MeanView to) {
  assert(fits(from, to.size()) && fits(to, to.size()));
  const float *xi = from.precision.data(), *chi = from.shift.data();
  float *mu_out = to.mean.data(), *xi_out = to.precision.data();
  for_each(to.size(), [=](std::size_t i) {
    const float precision = xi[i], shift = chi[i];
    mu_out[i] = shift / precision;
    xi_out[i] = precision;
  });
}

void product(ConstNaturalView a, ConstNaturalView b, NaturalView out) {
  assert(fits(a, out.size()) && fits(b, out.size()) && fits(out, out.size()));
  const float *xi_a = a.precision.data(), *xi_b = b.precision.data(), *chi_a = a.shift.data(), *chi_b = b.shift.data();
  float *xi = out.precision.data(), *chi = out.shift.data();
  for_each(out.size(), [=](std::size_t i) {
    xi[i] = xi_a[i] + xi_b[i];
    chi[i] = chi_a[i] + chi_b[i];
  });
}

void product(std::span<const ConstNaturalView> factors, std::span<const double> powers, NaturalView out) {
  assert(factors.size() == powers.size() && fits(out, out.size()));
  alignas(64) Buffer xi, chi;
  for (std::size_t begin = 0; begin < out.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, out.size() - begin);
    xi.fill(0.0);
    chi.fill(0.0);
    for (std::size_t f = 0; f < factors.size(); ++f) {
      assert(fits(factors[f], out.size()));
      accumulate(xi, powers[f], factors[f].precision.subspan(begin, count));
      accumulate(chi, powers[f], factors[f].shift.subspan(begin, count));
    }
    for (std::size_t j = 0; j < count; ++j) out.precision[begin + j] = narrow(xi[j]);
    for (std::size_t j = 0; j < count; ++j) out.shift[begin + j] = narrow(chi[j]);
  }
}

void ratio(ConstNaturalView a, ConstNaturalView b, NaturalView out) {
  assert(fits(a, out.size()) && fits(b, out.size()) && fits(out, out.size()));
  const float *xi_a = a.precision.data(), *xi_b = b.precision.data(), *chi_a = a.shift.data(), *chi_b = b.shift.data();
  float *xi = out.precision.data(), *chi = out.shift.data();
  for_each(out.size(), [=](std::size_t i) {
    xi[i] = xi_a[i] - xi_b[i];
    chi[i] = chi_a[i] - chi_b[i];
  });
}

void power(ConstNaturalView a, float t, NaturalView out) {
  assert(fits(a, out.size()) && fits(out, out.size()));
  const float *xi_a = a.precision.data(), *chi_a = a.shift.data();
  float *xi = out.precision.data(), *chi = out.shift.data();
  for_each(out.size(), [=](std::size_t i) {
    xi[i] = t * xi_a[i];
    chi[i] = t * chi_a[i];
  });
}

void collapse(std::span<const ConstMeanView> components, std::span<const double> weights, MeanView out) {
  assert(components.size() == weights.size() && fits(out, out.size()));
  double total = 0.0;
  for (const double a : weights) total += a;
  assert(total > 0.0);
  alignas(64) Buffer mean, variance;
  for (std::size_t begin = 0; begin < out.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, out.size() - begin);
    mean.fill(0.0);
    variance.fill(0.0);
    for (std::size_t c = 0; c < components.size(); ++c) {
      assert(fits(components[c], out.size()));
      accumulate(mean, weights[c], components[c].mean.subspan(begin, count));
    }
    for (std::size_t j = 0; j < count; ++j) mean[j] /= total;
    for (std::size_t c = 0; c < components.size(); ++c) {
      const float *mu = components[c].mean.data() + begin, *xi = components[c].precision.data() + begin;
      for (std::size_t j = 0; j < count; ++j) {
        const double d = wide(mu[j]) - mean[j];
        variance[j] += weights[c] * (1.0 / wide(xi[j]) + d * d);  // Eq. 6
      }
    }
    for (std::size_t j = 0; j < count; ++j) out.mean[begin + j] = narrow(mean[j]);
    for (std::size_t j = 0; j < count; ++j) out.precision[begin + j] = narrow(total / variance[j]);
  }
}

double kl(ConstNaturalView a, ConstNaturalView b) {
  assert(fits(a, a.size()) && fits(b, a.size()));
  return kl_of(a.size(), NaturalReader(a), NaturalReader(b));
}

double kl(ConstMeanView a, ConstMeanView b) {
  assert(fits(a, a.size()) && fits(b, a.size()));
  return kl_of(a.size(), MeanReader(a), MeanReader(b));
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

double entropy(std::span<const float> precision) {
  const float* xi = precision.data();
  return 0.5 * sum(precision.size(), [=](std::size_t i) { return (kLogTwoPi + 1.0) - log_normal_number(wide(xi[i])); });
}

double log_density(ConstNaturalView a, std::span<const float> theta) {
  assert(fits(a, theta.size()));
  return log_density_of(theta, NaturalReader(a));
}

double log_density(ConstMeanView a, std::span<const float> theta) {
  assert(fits(a, theta.size()));
  return log_density_of(theta, MeanReader(a));
}

std::size_t first_improper(std::span<const float> precision, Zero zero) {
  const auto proper = [=](float x) {  // false for NaN
    return (zero == Zero::allowed ? x >= 0.0f : x > 0.0f) && x <= std::numeric_limits<float>::max();
  };
  return static_cast<std::size_t>(std::find_if_not(precision.begin(), precision.end(), proper) - precision.begin());
}

// Nearly every update is proper, so the whole array is looked at without an exit: that vectorises.
bool is_proper(std::span<const float> precision, Zero zero) {
  const float least = zero == Zero::allowed ? 0.0f : std::numeric_limits<float>::denorm_min();
  unsigned bad = 0;
  for (const float x : precision) {
    bad |= static_cast<unsigned>(!(x >= least)) | static_cast<unsigned>(!(x <= std::numeric_limits<float>::max()));
  }
  return bad == 0;
}

void refuse_improper(std::string_view channel, std::span<const float> precision, Zero zero) {
  if (is_proper(precision, zero)) return;
  const std::size_t i = first_improper(precision, zero);
  fail<RefusedUpdate>("channel '{}' is no precision: number {} is {}; expected a finite number {} 0", channel, i,
                      precision[i], zero == Zero::allowed ? "at or above" : "above");
}

}  // namespace parley::gauss
