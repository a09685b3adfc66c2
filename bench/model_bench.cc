// One training step (forward and backward, without the optimiser unless it says sgd) of each model, native against
// LibTorch, on one thread.
#include <benchmark/benchmark.h>

#include "parley/gauss/diagonal.h"
#include "parley/model/curvature.h"
#include "parley/model/gradient_check.h"
#include "parley/model/kernels.h"
#include "parley/model/model.h"
#include "parley/model/variational.h"
#include "parley/optim/local_training.h"
#ifdef PARLEY_TORCH
#include "parley/model/torch/torch_models.h"
#endif

namespace parley {
namespace {

const ModelRegistry& registry() {
  static const ModelRegistry models = [] {
    auto all = native_models();
#ifdef PARLEY_TORCH
    add_torch_models(all);
#endif
    return all;
  }();
  return models;
}

const Task kGrey{.input_shape = {1, 28, 28}, .outputs = 10}, kColour{.input_shape = {3, 32, 32}, .outputs = 10};

std::unique_ptr<Model> make(const std::string& name, const std::string& backend, const Task& task,
                            std::vector<std::int64_t> hidden, const std::string& activation = "relu") {
  const auto& entry = registry().at(name);
  Options options("model", entry.about.options);
  if (!hidden.empty()) {
    options.set("hidden", std::move(hidden));
    options.set("activation", activation);
  }
  auto model = choose_backend(entry, backend)(options, task);
  testing::initialise(*model);
  return model;
}

void run(benchmark::State& state, Model& model, std::size_t rows, const Task& task) {
  const testing::RandomBatch batch(rows, task);
  for (auto _ : state) benchmark::DoNotOptimize(model.backward(batch.get()));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(rows));
}

std::unique_ptr<Optimizer> make_sgd() {
  return optimizers().at("sgd").make(Options("client", LocalOptions::declared()));
}

void step(benchmark::State& state, const std::string& name, const std::string& backend, std::size_t rows,
          std::vector<std::int64_t> hidden = {}, const std::string& activation = "relu", const Task& task = kGrey) {
  const auto model = make(name, backend, task, std::move(hidden), activation);
  run(state, *model, rows, task);
}

// The products of an mlp's step and nothing else: what its step is measured against.
void products(benchmark::State& state, std::size_t rows, std::vector<std::size_t> widths) {
  const std::size_t widest = *std::ranges::max_element(widths);
  const Flat deltas(rows * widest, 0.1f), inputs(rows * widest, 0.2f);
  Flat result(rows * widest), weights, gradients;
  std::vector<std::size_t> begin;
  for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
    begin.push_back(weights.size());
    weights.resize(weights.size() + widths[l] * widths[l + 1], 0.01f);
  }
  gradients.resize(weights.size());
  for (auto _ : state) {
    for (std::size_t l = 0; l < begin.size(); ++l) {
      const std::size_t in = widths[l], out = widths[l + 1];
      const float* weight = weights.data() + begin[l];
      multiply(Form::plain, Form::transposed, rows, out, in, inputs.data(), weight, result.data());
      multiply(Form::transposed, Form::plain, out, in, rows, deltas.data(), inputs.data(), gradients.data() + begin[l]);
      if (l > 0) multiply(Form::plain, Form::plain, rows, in, out, deltas.data(), weight, result.data());
    }
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(rows));
}

// A step that also adds up the squared gradient of each example, as method.gradient = "per_sample" asks for.
void per_sample(benchmark::State& state, const std::string& name, const std::string& backend, std::size_t rows,
                std::vector<std::int64_t> hidden = {}, const Task& task = kGrey) {
  const auto model = make(name, backend, task, std::move(hidden));
  Flat squares(model->layout().size(), 0.0f);
  model->observe([&](const LayerPass& pass) { add_squared_gradients(pass, squares); });
  run(state, *model, rows, task);
}

// The same with sgd's part of it: as a step of its own, or taken by the model.
void sgd_step(benchmark::State& state, const std::string& name, std::size_t rows,
              std::vector<std::int64_t> hidden = {}) {
  const auto model = make(name, "native", kGrey, std::move(hidden));
  const testing::RandomBatch batch(rows, kGrey);
  const auto sgd = make_sgd();
  for (auto _ : state) {
    model->backward(batch.get());
    sgd->step(model->parameters(), model->gradients(), {}, 1e-6f);
  }
}

void descend(benchmark::State& state, const std::string& name, std::size_t rows,
             std::vector<std::int64_t> hidden = {}) {
  const auto model = make(name, "native", kGrey, std::move(hidden));
  const testing::RandomBatch batch(rows, kGrey);
  for (auto _ : state) benchmark::DoNotOptimize(model->descend(batch.get(), 1e-6f));
}

// The form with Gaussian weights.
std::unique_ptr<Variational> make_gaussian(const std::string& name, const std::string& backend, const Task& task,
                                           std::vector<std::int64_t> hidden, bool with_private) {
  auto model = make_variational(make(name, backend, task, std::move(hidden)), with_private);
  testing::initialise(*model);
  std::ranges::fill(model->rhos(), -5.0f);
  return model;
}

void variational(benchmark::State& state, const std::string& name, const std::string& backend, std::size_t rows,
                 std::vector<std::int64_t> hidden = {}, bool with_private = false) {
  run(state, *make_gaussian(name, backend, kGrey, std::move(hidden), with_private), rows, kGrey);
}

// With the KL's part and sgd's, as virtual trains.
void variational_sgd_step(benchmark::State& state, std::size_t rows, std::vector<std::int64_t> hidden) {
  const auto model = make_gaussian("mlp", "native", kGrey, std::move(hidden), false);
  const testing::RandomBatch batch(rows, kGrey);
  const auto sgd = make_sgd();
  const std::size_t count = model->gaussians();
  const Flat precision(count, 2e4f), shift(count, 1.0f);
  for (auto _ : state) {
    model->backward(batch.get());
    const auto gradients = model->gradients();
    gauss::add_kl_gradient({precision, shift}, 1e-8f, 1e-6f, model->means(), model->variances(), gradients.first(count),
                           gradients.subspan(count));
    sgd->step(model->parameters(), gradients, {}, 1e-6f);
  }
}

BENCHMARK_CAPTURE(products, mlp_500_300_b32, 32, {784, 500, 300, 10});
BENCHMARK_CAPTURE(products, mlp_200_200_b10, 10, {784, 200, 200, 10});
BENCHMARK_CAPTURE(products, mlp_100_100_b20, 20, {784, 100, 100, 10});
BENCHMARK_CAPTURE(products, logistic_b10, 10, {784, 10});
BENCHMARK_CAPTURE(step, logistic_b10_native, "logistic", "native", 10);
BENCHMARK_CAPTURE(step, mlp_30_b10_native, "mlp", "native", 10, {30});
BENCHMARK_CAPTURE(step, mlp_500_300_b32_native, "mlp", "native", 32, {500, 300});
BENCHMARK_CAPTURE(per_sample, mlp_500_300_b32_native, "mlp", "native", 32, {500, 300});
BENCHMARK_CAPTURE(step, mlp_100_100_b20_native, "mlp", "native", 20, {100, 100});
BENCHMARK_CAPTURE(sgd_step, logistic_b10_native, "logistic", 10);
BENCHMARK_CAPTURE(sgd_step, mlp_100_100_b20_native, "mlp", 20, {100, 100});
BENCHMARK_CAPTURE(sgd_step, mlp_200_200_b10_native, "mlp", 10, {200, 200});
BENCHMARK_CAPTURE(sgd_step, mlp_500_300_b32_native, "mlp", 32, {500, 300});
BENCHMARK_CAPTURE(sgd_step, cnn_mnist_b10_native, "cnn_mnist", 10);
BENCHMARK_CAPTURE(descend, logistic_b10_native, "logistic", 10);
BENCHMARK_CAPTURE(descend, mlp_100_100_b20_native, "mlp", 20, {100, 100});
BENCHMARK_CAPTURE(descend, mlp_200_200_b10_native, "mlp", 10, {200, 200});
BENCHMARK_CAPTURE(descend, mlp_500_300_b32_native, "mlp", 32, {500, 300});
BENCHMARK_CAPTURE(descend, cnn_mnist_b10_native, "cnn_mnist", 10);
BENCHMARK_CAPTURE(variational, mlp_100_100_b20_native, "mlp", "native", 20, {100, 100});
BENCHMARK_CAPTURE(variational_sgd_step, mlp_100_100_b20_native, 20, {100, 100});
BENCHMARK_CAPTURE(variational, mlp_100_100_b20_native_private, "mlp", "native", 20, {100, 100}, true);
BENCHMARK_CAPTURE(step, mlp_200_200_b10_native, "mlp", "native", 10, {200, 200});
BENCHMARK_CAPTURE(step, mlp_500_300_b32_native_tanh, "mlp", "native", 32, {500, 300}, "tanh");
BENCHMARK_CAPTURE(step, mlp_500_300_b32_native_sigmoid, "mlp", "native", 32, {500, 300}, "sigmoid");
BENCHMARK_CAPTURE(step, cnn_mnist_b10_native, "cnn_mnist", "native", 10);
BENCHMARK_CAPTURE(step, cnn_mnist_b32_native, "cnn_mnist", "native", 32);
BENCHMARK_CAPTURE(step, cnn_cifar_b10_native, "cnn_cifar", "native", 10, {}, "relu", kColour);
BENCHMARK_CAPTURE(step, cnn_cifar_b32_native, "cnn_cifar", "native", 32, {}, "relu", kColour);
BENCHMARK_CAPTURE(step, lenet_b32_native, "lenet", "native", 32);
BENCHMARK_CAPTURE(step, cnn4_b32_native, "cnn4", "native", 32, {}, "relu", kColour);
BENCHMARK_CAPTURE(per_sample, cnn_mnist_b32_native, "cnn_mnist", "native", 32);
BENCHMARK_CAPTURE(variational, cnn_mnist_b10_native, "cnn_mnist", "native", 10);
#ifdef PARLEY_TORCH
BENCHMARK_CAPTURE(step, mlp_30_b10_torch, "mlp", "torch", 10, {30});
BENCHMARK_CAPTURE(step, cnn_cifar_b10_torch, "cnn_cifar", "torch", 10, {}, "relu", kColour);
BENCHMARK_CAPTURE(step, mlp_500_300_b32_torch, "mlp", "torch", 32, {500, 300});
BENCHMARK_CAPTURE(step, mlp_100_100_b20_torch, "mlp", "torch", 20, {100, 100});
BENCHMARK_CAPTURE(step, mlp_200_200_b10_torch, "mlp", "torch", 10, {200, 200});
BENCHMARK_CAPTURE(step, mlp_500_300_b32_torch_tanh, "mlp", "torch", 32, {500, 300}, "tanh");
BENCHMARK_CAPTURE(step, cnn_mnist_b10_torch, "cnn_mnist", "torch", 10);
BENCHMARK_CAPTURE(variational, cnn_mnist_b10_torch, "cnn_mnist", "torch", 10);
BENCHMARK_CAPTURE(step, cnn_mnist_b32_torch, "cnn_mnist", "torch", 32);
BENCHMARK_CAPTURE(per_sample, cnn_mnist_b32_torch, "cnn_mnist", "torch", 32);
BENCHMARK_CAPTURE(step, cnn_cifar_b32_torch, "cnn_cifar", "torch", 32, {}, "relu", kColour);
BENCHMARK_CAPTURE(step, lenet_b32_torch, "lenet", "torch", 32);
BENCHMARK_CAPTURE(step, cnn4_b32_torch, "cnn4", "torch", 32, {}, "relu", kColour);
BENCHMARK_CAPTURE(step, resnet18_b32_torch, "resnet18", "torch", 32, {}, "relu", kColour);
BENCHMARK_CAPTURE(step, densenet121_b32_torch, "densenet121", "torch", 32, {}, "relu", kColour);
BENCHMARK_CAPTURE(step, mobilenetv2_b32_torch, "mobilenetv2", "torch", 32, {}, "relu", kColour);
BENCHMARK_CAPTURE(per_sample, cnn_cifar_b32_torch, "cnn_cifar", "torch", 32, {}, kColour);
#endif

}  // namespace
}  // namespace parley

BENCHMARK_MAIN();
