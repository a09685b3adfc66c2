#include "parley/data/window_statistics.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <complex>
#include <unsupported/Eigen/FFT>

namespace parley {
namespace {

using Signal = std::array<float, kMovementSamples>;
constexpr std::size_t kJerk = kMovementAxes;           // signals 6 to 11
constexpr std::size_t kMagnitude = 2 * kMovementAxes;  // signals 12 to 15
constexpr std::size_t kTriads = 4;                     // both sensors and both jerks, three axes each
constexpr std::size_t kSignals = kMagnitude + kTriads;
constexpr double kSamples = kMovementSamples;
// Powers below this are rounding; it keeps the logarithm of a motionless axis finite.
constexpr double kLeastPower = 1e-10;

Signal jerk_of(const Signal& signal) {
  Signal jerk;
  for (std::size_t t = 1; t < jerk.size(); ++t) jerk[t] = signal[t] - signal[t - 1];
  jerk[0] = jerk[1];  // 128 samples as everywhere else
  return jerk;
}

Signal magnitude_of(const Signal* axes) {
  Signal magnitude;
  for (std::size_t t = 0; t < magnitude.size(); ++t) magnitude[t] = std::hypot(axes[0][t], axes[1][t], axes[2][t]);
  return magnitude;
}

std::array<Signal, kSignals> signals_of(std::span<const float> window) {
  std::array<Signal, kSignals> signals;
  for (std::size_t axis = 0; axis < kMovementAxes; ++axis) {
    std::copy_n(window.begin() + static_cast<std::ptrdiff_t>(axis * kMovementSamples), kMovementSamples,
                signals[axis].begin());
    signals[kJerk + axis] = jerk_of(signals[axis]);
  }
  for (std::size_t triad = 0; triad < kTriads; ++triad) {
    signals[kMagnitude + triad] = magnitude_of(&signals[3 * triad]);
  }
  return signals;
}

// A signal about its mean.
struct Centred {
  explicit Centred(const Signal& signal) {
    for (const float x : signal) mean += x / kSamples;
    std::transform(signal.begin(), signal.end(), values.begin(), [&](float x) { return x - static_cast<float>(mean); });
    deviation = std::sqrt(product(*this, 0) / kSamples);
  }
  // Σ of this one's samples times the other's, `lag` samples later.
  double product(const Centred& other, std::size_t lag) const {
    double sum = 0;
    for (std::size_t t = 0; t + lag < values.size(); ++t) sum += double{values[t]} * double{other.values[t + lag]};
    return sum;
  }
  Signal values;
  double mean = 0, deviation = 0;
};

// A constant signal goes with nothing.
float correlation(const Centred& a, const Centred& b, std::size_t lag = 0) {
  const double scale = a.deviation * b.deviation;
  return scale > kLeastPower ? static_cast<float>(a.product(b, lag) / kSamples / scale) : 0.0f;
}

// Of a distribution given by weights, in nats.
double entropy(std::span<const double> weights) {
  double total = 0, sum = 0;
  for (const double w : weights) total += w;
  if (total <= kLeastPower) return 0.0;
  for (const double w : weights) sum -= w > 0 ? w / total * std::log(w / total) : 0.0;
  return sum;
}

double histogram_entropy(const Signal& signal, double low, double high) {
  std::array<double, 10> counts{};
  for (const float x : signal) {
    const double place = high > low ? (x - low) / (high - low) * static_cast<double>(counts.size()) : 0.0;
    counts[std::min(static_cast<std::size_t>(place), counts.size() - 1)] += 1;
  }
  return entropy(counts);
}

// The value below which a part of the sorted samples lies.
double quantile(const Signal& sorted, double part) {
  return sorted[static_cast<std::size_t>(part * (kSamples - 1))];
}

double median_deviation(const Signal& signal, double median) {
  Signal distances;
  std::transform(signal.begin(), signal.end(), distances.begin(),
                 [&](float x) { return std::abs(x - static_cast<float>(median)); });
  const auto middle = distances.begin() + kMovementSamples / 2;
  std::nth_element(distances.begin(), middle, distances.end());
  return *middle;
}

void append_time(const Signal& signal, const Centred& centred, std::vector<float>& out) {
  Signal sorted = signal;
  std::sort(sorted.begin(), sorted.end());
  const auto& [values, mean, deviation] = centred;
  const double numbers[] = {mean,
                            deviation,
                            median_deviation(signal, quantile(sorted, 0.5)),
                            sorted.front(),
                            sorted.back(),
                            deviation * deviation + mean * mean,
                            quantile(sorted, 0.75) - quantile(sorted, 0.25),
                            histogram_entropy(signal, sorted.front(), sorted.back())};
  for (const double x : numbers) out.push_back(static_cast<float>(x));
  for (std::size_t lag = 1; lag <= 4; ++lag) out.push_back(correlation(centred, centred, lag));
}

// The power at 1, 2, …, 64 oscillations a window.
std::array<double, kMovementSamples / 2> power_spectrum(const Centred& signal, Eigen::FFT<float>& fft) {
  std::array<std::complex<float>, kMovementSamples> spectrum;
  fft.fwd(spectrum.data(), signal.values.data(), kMovementSamples);
  std::array<double, kMovementSamples / 2> power;
  for (std::size_t k = 0; k < power.size(); ++k) power[k] = std::norm(spectrum[k + 1]) / (kSamples * kSamples);
  return power;
}

void append_frequency(const Centred& signal, Eigen::FFT<float>& fft, std::vector<float>& out) {
  const auto power = power_spectrum(signal, fft);
  constexpr std::size_t kBands = 8, kWidth = power.size() / kBands;
  double total = 0, weighted = 0;
  for (std::size_t band = 0; band < kBands; ++band) {
    double sum = 0;
    for (std::size_t k = band * kWidth; k < (band + 1) * kWidth; ++k) {
      sum += power[k];
      weighted += power[k] * static_cast<double>(k + 1);
    }
    out.push_back(static_cast<float>(std::log(sum + kLeastPower)));
    total += sum;
  }
  const bool moves = total > kLeastPower;
  const auto strongest = std::max_element(power.begin(), power.end()) - power.begin() + 1;
  out.push_back(static_cast<float>(moves ? weighted / total : 0.0));
  out.push_back(static_cast<float>(moves ? strongest : 0));
  out.push_back(static_cast<float>(entropy(power)));
}

}  // namespace

std::vector<float> window_statistics(std::span<const float> window) {
  assert(window.size() == kMovementAxes * kMovementSamples);
  Eigen::FFT<float> fft(Eigen::default_fft_impl<float>(), Eigen::FFT<float>::HalfSpectrum);
  std::vector<float> out;
  out.reserve(kWindowStatistics);
  std::vector<Centred> centred;
  for (const Signal& signal : signals_of(window)) {
    centred.emplace_back(signal);
    append_time(signal, centred.back(), out);
    append_frequency(centred.back(), fft, out);
  }
  for (std::size_t x = 0; x < kMagnitude; x += 3) {
    for (const auto& [a, b] : {std::pair{x, x + 1}, {x, x + 2}, {x + 1, x + 2}}) {
      out.push_back(correlation(centred[a], centred[b]));
    }
  }
  return out;
}

}  // namespace parley
