#include "parley/model/quadratic.h"

#include <cassert>
#include <cmath>

#include "parley/tensor/flat.h"

namespace parley {
namespace {

class Quadratic final : public Model {
 public:
  explicit Quadratic(std::size_t d)
      : d_(d),
        layout_({{.name = "theta", .shape = {static_cast<std::int64_t>(d)}}}),
        theta_(d),
        gradients_(d),
        sums_(d) {}

  const Layout& layout() const override { return layout_; }
  std::span<float> parameters() override { return theta_; }
  std::span<float> gradients() override { return gradients_; }
  std::size_t outputs() const override { return d_; }
  Loss loss() const override { return Loss::mse; }

  // In double: tests compare with closed forms.
  double backward(const Batch& batch) override {
    std::fill(sums_.begin(), sums_.end(), 0.0);
    double total = 0.0;
    for (std::size_t i = 0; i < batch.size; ++i) {
      const auto row = batch.inputs.subspan(i * 2 * d_, 2 * d_);
      for (std::size_t j = 0; j < d_; ++j) {
        const double h = row[j], distance = static_cast<double>(theta_[j]) - row[d_ + j];
        total += 0.5 * h * distance * distance;
        sums_[j] += h * distance;
      }
    }
    const auto rows = static_cast<double>(batch.size);
    for (std::size_t j = 0; j < d_; ++j) gradients_[j] = static_cast<float>(sums_[j] / rows);
    return total / rows;
  }

  void predict(const Batch& batch, std::span<float> outputs) override {
    assert(outputs.size() == batch.size * d_);
    for (std::size_t i = 0; i < batch.size; ++i) {
      const auto row = batch.inputs.subspan(i * 2 * d_, 2 * d_);
      for (std::size_t j = 0; j < d_; ++j) {
        const float stretch = std::sqrt(row[j] * static_cast<float>(d_) / 2.0f);
        outputs[i * d_ + j] = stretch * (theta_[j] - row[d_ + j]);
      }
    }
  }

 private:
  std::size_t d_;
  Layout layout_;
  Flat theta_;
  Flat gradients_;
  FlatDouble sums_;
};

std::unique_ptr<Model> make_quadratic(const Options&, const Task& task) {
  const auto expected = static_cast<std::int64_t>(2 * task.outputs);
  if (task.loss != Loss::mse || task.input_shape != std::vector<std::int64_t>{expected}) {
    fail(
        "model.name: 'quadratic' needs regression data with rows [h, m] of twice the target size; "
        "got inputs {} and {} outputs",
        describe_shape(task.input_shape), task.outputs);
  }
  return std::make_unique<Quadratic>(task.outputs);
}

}  // namespace

Dataset quadratic_dataset(const std::vector<std::vector<float>>& h, const std::vector<std::vector<float>>& m) {
  assert(!h.empty() && h.size() == m.size());
  const std::size_t d = h.front().size();
  std::vector<float> values;
  for (std::size_t i = 0; i < h.size(); ++i) {
    assert(h[i].size() == d && m[i].size() == d);
    values.insert(values.end(), h[i].begin(), h[i].end());
    values.insert(values.end(), m[i].begin(), m[i].end());
  }
  Dataset data;
  data.name = "quadratic";
  data.shape = {static_cast<std::int64_t>(2 * d)};
  data.values = std::move(values);
  data.targets.assign(h.size() * d, 0.0f);
  data.target_size = d;
  return data;
}

void add_quadratic(ModelRegistry& registry) {
  registry.add({.name = "quadratic",
                .summary = "Analytic: ½ Σ h (θ − m)² for rows [h, m]; its optimum is known.",
                .source = "",
                .options = {}},
               {{"native", &make_quadratic}});
}

}  // namespace parley
