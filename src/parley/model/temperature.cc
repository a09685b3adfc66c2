#include "parley/model/temperature.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace parley {
namespace {

constexpr double kColdest = 0.05, kHottest = 20.0;

// d/dβ of −ln softmax(β·z)_label: how much the logits' mean under the prediction exceeds the label's.
double slope(std::span<const float> logits, std::size_t label, double beta) {
  const auto largest = static_cast<double>(*std::ranges::max_element(logits));
  double total = 0.0, weighted = 0.0;
  for (const float logit : logits) {
    const auto z = static_cast<double>(logit);
    const double p = std::exp(beta * (z - largest));
    total += p;
    weighted += p * z;
  }
  return weighted / total - static_cast<double>(logits[label]);
}

}  // namespace

double best_temperature(const MeanPrediction& prediction, const View& view) {
  assert(prediction.loss() == Loss::cross_entropy && view.size() > 0);
  const std::size_t width = prediction.width();
  const auto sum_of_slopes = [&](double beta) {
    double sum = 0.0;
    for (std::size_t i = 0; i < view.size(); ++i) {
      const auto label = static_cast<std::size_t>(view.data->labels[view.rows[i]]);
      sum += slope(prediction.outputs().subspan(i * width, width), label, beta);
    }
    return sum;
  };
  // The loss is convex in β = 1/T, so its slope changes sign once, or never.
  double low = 1.0 / kHottest, high = 1.0 / kColdest;
  if (sum_of_slopes(low) >= 0.0) return kHottest;
  if (sum_of_slopes(high) <= 0.0) return kColdest;
  for (int halving = 0; halving < 40; ++halving) {
    const double middle = std::sqrt(low * high);
    (sum_of_slopes(middle) < 0.0 ? low : high) = middle;
  }
  return 1.0 / std::sqrt(low * high);
}

MeanPrediction at_temperature(const MeanPrediction& prediction, double temperature) {
  Flat outputs(prediction.outputs().begin(), prediction.outputs().end());
  for (float& output : outputs) output = static_cast<float>(static_cast<double>(output) / temperature);
  MeanPrediction tempered(prediction.loss(), outputs.size() / prediction.width(), prediction.width());
  tempered.add(0, 0, outputs);
  return tempered;
}

}  // namespace parley
