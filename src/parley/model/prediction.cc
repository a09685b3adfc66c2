#include "parley/model/prediction.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "parley/base/errors.h"
#include "parley/model/losses.h"

namespace parley {
namespace {

double log_sum_exp(std::span<const float> logits) {
  const auto largest = static_cast<double>(*std::ranges::max_element(logits));
  double sum = 0.0;
  for (const float z : logits) sum += std::exp(static_cast<double>(z) - largest);
  return largest + std::log(sum);
}

// From the logits of the mean over `earlier` networks to those of one network more. On logarithms, so that a class
// that every network all but rules out keeps a finite loss.
void add_probabilities(double earlier, std::span<const float> logits, std::span<float> mean) {
  const double old_total = log_sum_exp(mean), total = log_sum_exp(logits);
  for (std::size_t c = 0; c < mean.size(); ++c) {
    const double a = static_cast<double>(mean[c]) - old_total, b = static_cast<double>(logits[c]) - total;
    const double largest = std::max(a, b);
    mean[c] = static_cast<float>(largest +
                                 std::log((earlier * std::exp(a - largest) + std::exp(b - largest)) / (earlier + 1.0)));
  }
}

}  // namespace

MeanPrediction::MeanPrediction(Loss loss, std::size_t rows, std::size_t width)
    : loss_(loss), width_(width), mean_(rows * width) {}

void MeanPrediction::add(std::size_t network, std::size_t begin, std::span<const float> outputs) {
  assert(outputs.size() % width_ == 0 && begin * width_ + outputs.size() <= mean_.size());
  const auto mean = std::span(mean_).subspan(begin * width_, outputs.size());
  const auto earlier = static_cast<double>(network);
  if (network == 0) {
    std::ranges::copy(outputs, mean.begin());
  } else if (loss_ == Loss::cross_entropy) {
    for (std::size_t at = 0; at < outputs.size(); at += width_) {
      add_probabilities(earlier, outputs.subspan(at, width_), mean.subspan(at, width_));
    }
  } else {
    const auto share = static_cast<float>(1.0 / (earlier + 1.0));
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += (outputs[i] - mean[i]) * share;
  }
}

std::vector<double> doubts(const MeanPrediction& prediction) {
  const std::size_t width = prediction.width(), rows = prediction.outputs().size() / width;
  std::vector<double> result(rows);
  Flat row(width);
  for (std::size_t i = 0; i < rows; ++i) {
    std::ranges::copy(prediction.outputs().subspan(i * width, width), row.begin());
    if (!std::ranges::all_of(row, [](float x) { return std::isfinite(x); })) {
      fail<RunError>("evaluation: the outputs for row {} are not finite; lower evaluate.posterior_scale or client.lr",
                     i);
    }
    if (prediction.loss() == Loss::cross_entropy) softmax(row);
    // The likeliest class left out: 1 − p would be 0 for every row a network is very sure of.
    *std::ranges::max_element(row) = 0.0f;
    for (const float p : row) result[i] += static_cast<double>(p);
  }
  return result;
}

double auroc(std::span<const double> high, std::span<const double> low) {
  assert(!high.empty() && !low.empty());
  std::vector<double> ordered(low.begin(), low.end());
  std::ranges::sort(ordered);
  double above = 0.0;  // pairs, a tie counting half
  for (const double x : high) {
    const auto [first, last] = std::ranges::equal_range(ordered, x);
    above += static_cast<double>(first - ordered.begin()) + 0.5 * static_cast<double>(last - first);
  }
  return above / (static_cast<double>(high.size()) * static_cast<double>(low.size()));
}

}  // namespace parley
