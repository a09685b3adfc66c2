// For tests of methods: any model with a norm layer beside it that measures the inputs and normalises nothing.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "parley/model/model.h"
#include "parley/tensor/flat.h"

namespace parley {

// Behind the model's own weights: scale and shift, with the loss ½(scale − mean)² + ½(shift − mean)² for each input's
// mean over the batch; the mean and the population variance of each input over the last batch, as running statistics;
// and a counter of batches. REQUIRES a model whose parameters are all trained.
class NormedModel final : public Model {
 public:
  NormedModel(std::unique_ptr<Model> inner, std::size_t inputs)
      : inner_(std::move(inner)),
        inputs_(inputs),
        layout_(with_norm(inner_->layout(), static_cast<std::int64_t>(inputs))),
        parameters_(layout_.size()),
        gradients_(layout_.size()) {}

  const Layout& layout() const override { return layout_; }
  std::span<float> parameters() override { return parameters_; }
  std::span<float> gradients() override { return gradients_; }
  std::size_t outputs() const override { return inner_->outputs(); }
  Loss loss() const override { return inner_->loss(); }
  void reseed(const Stream& noise) override { inner_->reseed(noise); }

  double backward(const Batch& batch) override {
    measure(batch);
    load_inner();
    const double loss = inner_->backward(batch);
    std::ranges::copy(inner_->gradients(), gradients_.begin());
    const auto mean = part("norm.running_mean", parameters_);
    for (const char* name : {"norm.weight", "norm.bias"}) {
      const auto gradient = part(name, gradients_), value = part(name, parameters_);
      for (std::size_t j = 0; j < inputs_; ++j) gradient[j] = value[j] - mean[j];
    }
    return loss;
  }

  void predict(const Batch& batch, std::span<float> outputs) override {
    load_inner();
    inner_->predict(batch, outputs);
  }

 private:
  static Layout with_norm(const Layout& inner, std::int64_t inputs) {
    std::vector<LayoutEntry> entries = inner.entries();
    entries.push_back({.name = "norm.weight", .shape = {inputs}, .role = Role::norm_scale});
    entries.push_back({.name = "norm.bias", .shape = {inputs}, .role = Role::norm_shift});
    entries.push_back({.name = "norm.running_mean", .shape = {inputs}, .role = Role::running_mean});
    entries.push_back({.name = "norm.running_var", .shape = {inputs}, .role = Role::running_var});
    entries.push_back({.name = "norm.num_batches_tracked", .shape = {}, .role = Role::counter});
    return Layout(std::move(entries));
  }

  std::span<float> part(const char* name, Flat& flat) const { return layout_.find(name)->of(std::span(flat)); }
  void load_inner() { std::copy_n(parameters_.begin(), inner_->layout().size(), inner_->parameters().begin()); }

  void measure(const Batch& batch) {
    const auto means = part("norm.running_mean", parameters_), vars = part("norm.running_var", parameters_);
    const auto size = static_cast<double>(batch.size);
    for (std::size_t j = 0; j < inputs_; ++j) {
      double mean = 0.0, var = 0.0;
      for (std::size_t i = 0; i < batch.size; ++i) mean += batch.inputs[i * inputs_ + j] / size;
      for (std::size_t i = 0; i < batch.size; ++i) var += std::pow(batch.inputs[i * inputs_ + j] - mean, 2) / size;
      means[j] = static_cast<float>(mean);
      vars[j] = static_cast<float>(var);
    }
    parameters_.back() += 1.0f;
  }

  std::unique_ptr<Model> inner_;
  std::size_t inputs_;
  Layout layout_;
  Flat parameters_, gradients_;
};

}  // namespace parley
