#include "parley/model/evaluation.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>

#include "parley/base/counted.h"
#include "parley/base/errors.h"
#include "parley/model/losses.h"

namespace parley {
namespace {

// Squared distance to the one-hot label.
double squared_distance(std::span<const float> row, std::size_t label) {
  double sum = 0.0;
  for (std::size_t c = 0; c < row.size(); ++c) {
    const double difference = static_cast<double>(row[c]) - (c == label ? 1.0 : 0.0);
    sum += difference * difference;
  }
  return sum;
}

// Bins are (k/15, (k+1)/15], as Guo et al. have them; zero falls into the first.
std::size_t bin_of(double confidence) {
  const double index = std::ceil(confidence * static_cast<double>(Evaluation::kBins)) - 1.0;
  return static_cast<std::size_t>(std::clamp(index, 0.0, static_cast<double>(Evaluation::kBins - 1)));
}

// Counts the row's credible set, and whether the label is in it. Of classes that are as likely the earlier come first.
void add_credible_set(Evaluation& to, std::span<const float> row, std::size_t label) {
  constexpr double kRounding = 1e-6;        // of floats that should have exactly that much
  thread_local std::vector<float> ordered;  // no allocation for each row
  ordered.assign(row.begin(), row.end());
  std::ranges::sort(ordered, std::greater());
  double held = 0.0;
  std::size_t size = 0;
  while (size < ordered.size() && held < Evaluation::kCredible - kRounding)
    held += static_cast<double>(ordered[size++]);
  std::size_t likelier = 0;
  for (std::size_t c = 0; c < row.size(); ++c) likelier += row[c] > row[label] || (row[c] == row[label] && c < label);
  to.set_sizes += size;
  to.covered += likelier < size;
}

// One row of a classifier; its logits are overwritten. Outputs fitted to one-hot labels by least
// squares are taken for the probabilities they estimate.
void add_classified(Evaluation& to, Loss loss, std::span<float> row, std::size_t label) {
  const auto guess = static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
  if (loss == Loss::cross_entropy) {
    const auto logit = static_cast<double>(row[label]);
    to.loss_sum += softmax(row) - logit;
  }
  const double brier = squared_distance(row, label);
  if (loss == Loss::mse) to.loss_sum += brier / static_cast<double>(row.size());
  to.brier_sum += brier;

  const bool right = guess == label;
  const double confidence = std::clamp(static_cast<double>(row[guess]), 0.0, 1.0);
  if (!std::isfinite(confidence)) return;  // the loss is not finite either, which evaluate() reports
  auto& bin = to.bins[bin_of(confidence)];
  ++bin.count;
  bin.confidence += confidence;
  bin.correct += right;
  to.correct += right;
  add_credible_set(to, row, label);
  ++to.class_total[label];
  to.class_correct[label] += right;
  if (!to.confusion.empty()) ++to.confusion[label * to.class_total.size() + guess];
}

void add_regressed(Evaluation& to, std::span<const float> row, std::span<const float> target) {
  double sum = 0.0;
  for (std::size_t c = 0; c < row.size(); ++c) {
    const auto truth = static_cast<double>(target[c]);
    const double difference = static_cast<double>(row[c]) - truth;
    sum += difference * difference;
    Evaluation::Target& of = to.targets[c];
    of.absolute += std::abs(difference);
    of.squares += difference * difference;
    of.sum += truth;
    of.sum_squares += truth * truth;
  }
  to.loss_sum += sum / static_cast<double>(row.size());
}

void add_batch(Evaluation& to, Loss loss, const Batch& batch, std::size_t width, std::span<float> outputs) {
  for (std::size_t i = 0; i < batch.size; ++i) {
    const auto row = outputs.subspan(i * width, width);
    if (to.classified()) {
      add_classified(to, loss, row, static_cast<std::size_t>(batch.labels[i]));
    } else {
      add_regressed(to, row, batch.targets.subspan(i * width, width));
    }
  }
  to.examples += batch.size;
}

Evaluation nothing_yet(const View& view) {
  Evaluation result;
  result.class_total.resize(view.data->classes);
  result.class_correct.resize(view.data->classes);
  const std::size_t classes = view.data->classes;
  if (classes <= Evaluation::kMostConfused) result.confusion.resize(classes * classes);
  result.targets.resize(view.data->target_size);
  const auto& scale = view.data->target_transform.scale;
  for (std::size_t j = 0; j < scale.size(); ++j) result.targets[j].unit = 1.0 / static_cast<double>(scale[j]);
  return result;
}

void require_finite(const Evaluation& result, std::size_t examples, const char* remedy) {
  if (std::isfinite(result.loss_sum)) return;
  fail<RunError>("evaluation: the loss on {} is not finite: {}", counted(examples, "example"), remedy);
}

template <class T>
void add_to(std::vector<T>& to, const std::vector<T>& from) {
  if (to.size() < from.size()) to.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) to[i] += from[i];
}

}  // namespace

double Evaluation::loss() const {
  return loss_sum / static_cast<double>(examples);
}

double Evaluation::accuracy() const {
  return static_cast<double>(correct) / static_cast<double>(examples);
}

double Evaluation::brier() const {
  return brier_sum / static_cast<double>(examples);
}

double Evaluation::coverage() const {
  return static_cast<double>(covered) / static_cast<double>(examples);
}

double Evaluation::set_size() const {
  return static_cast<double>(set_sizes) / static_cast<double>(examples);
}

double Evaluation::ece() const {
  double gap = 0.0;
  for (const auto& bin : bins) gap += std::abs(static_cast<double>(bin.correct) - bin.confidence);
  return gap / static_cast<double>(examples);
}

double Evaluation::mae() const {
  double sum = 0.0;
  for (const auto& target : targets) sum += target.absolute * target.unit;
  return sum / static_cast<double>(examples * targets.size());
}

double Evaluation::rmse() const {
  double sum = 0.0;
  for (const auto& target : targets) sum += std::sqrt(target.squares / static_cast<double>(examples)) * target.unit;
  return sum / static_cast<double>(targets.size());
}

std::optional<double> Evaluation::r2() const {
  double sum = 0.0;
  std::size_t varying = 0;
  for (const auto& target : targets) {
    const double variation = target.sum_squares - target.sum * target.sum / static_cast<double>(examples);
    // Of equal values nothing but rounding is left.
    if (!(variation > 1e-12 * target.sum_squares)) continue;
    sum += 1.0 - target.squares / variation;
    ++varying;
  }
  if (varying == 0) return {};
  return sum / static_cast<double>(varying);
}

void Evaluation::merge(const Evaluation& other) {
  examples += other.examples;
  loss_sum += other.loss_sum;
  correct += other.correct;
  brier_sum += other.brier_sum;
  covered += other.covered;
  set_sizes += other.set_sizes;
  add_to(class_total, other.class_total);
  add_to(class_correct, other.class_correct);
  add_to(confusion, other.confusion);
  if (targets.empty()) {
    targets = other.targets;
  } else {
    for (std::size_t j = 0; j < other.targets.size(); ++j) {
      targets[j].absolute += other.targets[j].absolute;
      targets[j].squares += other.targets[j].squares;
      targets[j].sum += other.targets[j].sum;
      targets[j].sum_squares += other.targets[j].sum_squares;
    }
  }
  for (std::size_t k = 0; k < kBins; ++k) {
    bins[k].count += other.bins[k].count;
    bins[k].confidence += other.bins[k].confidence;
    bins[k].correct += other.bins[k].correct;
  }
}

Evaluation evaluate(Model& model, const View& view, std::size_t begin, std::size_t end, EvaluationBuffer& buffer,
                    std::size_t chunk) {
  assert(begin <= end && end <= view.size() && chunk > 0);
  Evaluation result = nothing_yet(view);
  const std::size_t width = model.outputs();
  for (std::size_t at = begin; at < end; at += chunk) {
    const Batch batch = buffer.batch.gather_range(view, at, std::min(at + chunk, end));
    buffer.outputs.resize(batch.size * width);
    model.predict(batch, buffer.outputs);
    add_batch(result, model.loss(), batch, width, buffer.outputs);
  }
  require_finite(result, end - begin, "the model has diverged; lower client.lr");
  return result;
}

Evaluation evaluate(Model& model, const View& view) {
  EvaluationBuffer buffer;
  return evaluate(model, view, 0, view.size(), buffer);
}

Evaluation evaluate(const MeanPrediction& prediction, const View& view) {
  const std::size_t width = prediction.width();
  assert(prediction.outputs().size() == view.size() * width);
  Evaluation result = nothing_yet(view);
  EvaluationBuffer buffer;
  for (std::size_t at = 0; at < view.size(); at += kEvaluationChunk) {
    const Batch batch = buffer.batch.gather_range(view, at, std::min(at + kEvaluationChunk, view.size()));
    const auto outputs = prediction.outputs().subspan(at * width, batch.size * width);
    buffer.outputs.assign(outputs.begin(), outputs.end());
    add_batch(result, prediction.loss(), batch, width, buffer.outputs);
  }
  require_finite(result, view.size(), "networks this far from the mean overflow; lower evaluate.posterior_scale");
  return result;
}

}  // namespace parley
