#include "parley/methods/laplace/point.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "parley/base/errors.h"
#include "parley/model/curvature.h"
#include "parley/model/losses.h"

namespace parley {
namespace {

constexpr std::size_t kRows = 500;  // a batch; of the rest's diagonal, each gives one look

// Batches whose labels the model itself gives.
class Relabelled {
 public:
  Relabelled(const ClientTask& task, FisherLabels how) : task_(task), how_(how) {}

  // Calls visit(batch, weights of its rows) with each set of labels; no weights: all 1.
  template <class Visit>
  void for_each(const Batch& batch, std::size_t begin, Visit visit) {
    if (how_ == FisherLabels::empirical) return visit(batch, std::span<const float>());
    outputs_.resize(batch.size * task_.model.outputs());
    task_.model.predict(batch, outputs_);
    const bool classes = task_.model.loss() == Loss::cross_entropy;
    if (classes) {
      for (std::size_t i = 0; i < batch.size; ++i) softmax(row(i));
    }
    if (how_ == FisherLabels::sampled) return visit(classes ? drawn(batch, begin) : noisy(batch, begin), no_weights_);
    for (std::size_t k = 0; k < task_.model.outputs(); ++k) {
      const Batch other = classes ? of_class(batch, k) : beside(batch, k);
      visit(other, classes ? std::span<const float>(weights_) : no_weights_);
    }
  }

 private:
  std::span<float> row(std::size_t i) {
    const std::size_t width = task_.model.outputs();
    return std::span(outputs_).subspan(i * width, width);
  }
  // By the row's number in the data: whoever holds it draws the same.
  Stream stream_of(std::size_t position) const {
    return Stream(task_.seed, "labels of the model", task_.round, task_.data.rows[position]);
  }

  Batch drawn(Batch batch, std::size_t begin) {
    labels_.resize(batch.size);
    for (std::size_t i = 0; i < batch.size; ++i) {
      double left = stream_of(begin + i).uniform();
      const auto p = row(i);
      std::size_t k = 0;
      while (k + 1 < p.size() && (left -= static_cast<double>(p[k])) >= 0.0) ++k;
      labels_[i] = static_cast<std::int32_t>(k);
    }
    batch.labels = labels_;
    return batch;
  }
  Batch of_class(Batch batch, std::size_t k) {
    labels_.assign(batch.size, static_cast<std::int32_t>(k));
    weights_.resize(batch.size);
    for (std::size_t i = 0; i < batch.size; ++i) weights_[i] = row(i)[k];
    batch.labels = labels_;
    return batch;
  }

  // A squared error, the mean over `width` outputs, is the negative log of a Gaussian of variance width/2.
  float deviation() const { return std::sqrt(static_cast<float>(task_.model.outputs()) / 2.0f); }
  Batch noisy(Batch batch, std::size_t begin) {
    targets_ = outputs_;
    for (std::size_t i = 0; i < batch.size; ++i) {
      Stream stream = stream_of(begin + i);
      for (std::size_t k = 0; k < row(i).size(); ++k) {
        targets_[i * row(i).size() + k] += deviation() * static_cast<float>(stream.normal());
      }
    }
    batch.labels = {};
    batch.targets = targets_;
    return batch;
  }
  // E[εεᵀ] = Σ_k e_k e_kᵀ.
  Batch beside(Batch batch, std::size_t k) {
    targets_ = outputs_;
    for (std::size_t i = 0; i < batch.size; ++i) targets_[i * row(i).size() + k] += deviation();
    batch.labels = {};
    batch.targets = targets_;
    return batch;
  }

  const ClientTask& task_;
  FisherLabels how_;
  Flat outputs_, targets_, weights_;
  std::vector<std::int32_t> labels_;
  std::span<const float> no_weights_;
};

// The sums behind A, B and the rest's diagonal.
class FactorSums {
 public:
  FactorSums(const LayerMatrices& matrices, const RestOfModel& rest, Positions positions, std::size_t first)
      : matrices_(matrices), rest_(rest), positions_(positions), inputs_(matrices, first), diagonal_(rest.size, 0.0) {
    for (const auto& layer : matrices.all()) outputs_.emplace_back(layer.rows() * layer.rows(), 0.0f);
  }

  void add_inputs(const LayerPass& pass) {
    const bool reduce = positions_ == Positions::reduce && pass.rows_per_example > 1;
    inputs_.add(reduce ? reduced(pass) : pass);
  }
  void add_outputs(const LayerPass& pass, std::span<const float> weights) {
    const auto* layer = matrices_.shown_as(pass.index);
    if (layer == nullptr) return;
    const bool reduce = positions_ != Positions::expand && pass.rows_per_example > 1;
    add_output_gram(reduce ? reduced(pass) : pass, outputs_[matrices_.place_of(*layer)], weights);
  }
  // Labels of the model make an example's gradient zero in the mean, and independent of the others': the square of
  // their sum is in expectation the sum of their squares.
  void add_rest(std::span<const float> gradient, std::size_t examples) {
    const auto n = static_cast<double>(examples);
    rest_.for_each([&](std::size_t from, std::size_t to) {
      diagonal_[to] += std::pow(n * static_cast<double>(gradient[from]), 2);
    });
  }

  void write(std::size_t examples, const PointFactors& to) const {
    const double n = static_cast<double>(examples);
    inputs_.write(0.0f, to.inputs);
    for (std::size_t l = 0; l < outputs_.size(); ++l) {
      const auto& layer = matrices_.all()[l];
      pack_symmetric(outputs_[l], layer.rows(), static_cast<float>(1.0 / n), 0.0f, layer.outputs_of(to.outputs));
    }
    for (std::size_t i = 0; i < diagonal_.size(); ++i) to.rest[i] = static_cast<float>(diagonal_[i] / n);
  }

 private:
  LayerPass reduced(const LayerPass& pass) { return reduce_positions(pass, input_means_, delta_sums_); }

  const LayerMatrices& matrices_;
  const RestOfModel& rest_;
  Positions positions_;
  InputSums inputs_;
  Flat input_means_, delta_sums_;
  std::vector<Flat> outputs_;
  std::vector<double> diagonal_;
};

// Σ over examples of the gradient, in double: the same sum however the rows are cut.
void add_gradient(std::span<const float> gradient, std::size_t examples, std::vector<double>& sum) {
  const auto n = static_cast<double>(examples);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += n * static_cast<double>(gradient[i]);
}

}  // namespace

RestOfModel::RestOfModel(const Layout& layout, const LayerMatrices& matrices) {
  std::set<std::size_t> covered;
  for (const auto& matrix : matrices.all()) {
    covered.insert(matrix.layer.weight.offset);
    if (matrix.layer.bias) covered.insert(matrix.layer.bias->offset);
  }
  for (const auto& entry : layout.entries()) {
    if (!is_trainable(entry.role) || covered.contains(entry.offset)) continue;
    entries.push_back(entry);
    size += entry.size;
  }
}

double measure_point(const ClientTask& task, const LayerMatrices& matrices, const RestOfModel& rest,
                     const LaplaceOptions& options, std::span<float> gradient, const PointFactors* factors) {
  Model& model = task.model;
  const std::size_t trainable = model.layout().trainable(), examples = task.data.size();
  const auto statistics = model.parameters().subspan(trainable);
  BatchBuffer buffer;
  Relabelled relabelled(task, options.fisher);
  FactorSums sums(matrices, rest, options.positions, factors == nullptr ? 0 : factors->first);
  std::vector<double> gradient_sum(trainable, 0.0);
  double loss = 0.0;
  for (std::size_t begin = 0; begin < examples; begin += kRows) {
    const Batch batch = buffer.gather_range(task.data, begin, std::min(begin + kRows, examples));
    if (factors != nullptr) model.observe([&](const LayerPass& pass) { sums.add_inputs(pass); });
    loss += model.backward(batch) * static_cast<double>(batch.size);
    add_gradient(model.gradients(), batch.size, gradient_sum);
    if (factors == nullptr) continue;
    const Flat before(statistics.begin(), statistics.end());  // one pass moves them, not each of its looks
    relabelled.for_each(batch, begin, [&](const Batch& other, std::span<const float> weights) {
      model.observe([&](const LayerPass& pass) { sums.add_outputs(pass, weights); });
      model.backward(other);
      sums.add_rest(model.gradients(), batch.size);
    });
    model.observe({});
    std::ranges::copy(before, statistics.begin());
  }
  if (!std::isfinite(loss)) fail<RefusedUpdate>("diverged: the loss at the broadcast weights was not finite");
  const auto n = static_cast<double>(examples);
  std::ranges::transform(gradient_sum, gradient.begin(), [&](double g) { return static_cast<float>(g / n); });
  std::ranges::copy(statistics, gradient.begin() + static_cast<std::ptrdiff_t>(trainable));
  if (factors != nullptr) sums.write(examples, *factors);
  return loss / n;
}

double point_loss(const ClientTask& task) {
  // Where batches have statistics of their own, a pass in evaluation mode would use those of other weights.
  if (task.model.layout().trainable() == task.model.layout().size()) return task.loss();
  const std::size_t examples = task.data.size();
  BatchBuffer buffer;
  double loss = 0.0;
  for (std::size_t begin = 0; begin < examples; begin += kRows) {
    const Batch batch = buffer.gather_range(task.data, begin, std::min(begin + kRows, examples));
    loss += task.model.backward(batch) * static_cast<double>(batch.size);
  }
  if (!std::isfinite(loss)) fail<RefusedUpdate>("diverged: the loss was not finite");
  return loss / static_cast<double>(examples);
}

}  // namespace parley
