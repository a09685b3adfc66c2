#include "parley/model/torch/shown_layers.h"

#include <gtest/gtest.h>

#include <limits>

#include "parley/model/curvature.h"
#include "parley/model/torch/test_tools.h"

namespace parley {
namespace {

using testing::copy;
using testing::largest_difference;
using testing::make;
using testing::predict;
using testing::RandomBatch;
using Widths = std::vector<std::int64_t>;

// What an observer has seen of one pass.
struct Seen {
  std::size_t index, rows, rows_per_example;
  std::vector<float> inputs, deltas;
};

template <class Pass>
std::vector<Seen> watch(Model& model, Pass pass) {
  std::vector<Seen> seen;
  model.observe([&](const LayerPass& p) {
    seen.push_back({p.index, p.rows, p.rows_per_example, copy(p.inputs), copy(p.deltas)});
  });
  pass();
  model.observe({});
  return seen;
}

// Σ over rows of δᵀa and of δ, in the places of the layer's weight and bias.
void add_gradient(const Layer& layer, const Seen& seen, std::span<float> sum) {
  const std::size_t in = layer.in(), out = layer.out();
  for (std::size_t r = 0; r < seen.rows; ++r) {
    for (std::size_t o = 0; o < out; ++o) {
      const float delta = seen.deltas[r * out + o];
      if (layer.bias) sum[layer.bias->offset + o] += delta;
      for (std::size_t i = 0; i < in; ++i) sum[layer.weight.offset + o * in + i] += delta * seen.inputs[r * in + i];
    }
  }
}

// Calls check(model, task) for networks of every kind of layer.
template <class Check>
void for_each_network(Check check) {
  struct Kind {
    std::string model;
    std::vector<std::int64_t> shape;
    std::map<std::string, Value> options;
  };
  const std::map<std::string, Value> group{{"norm", std::string("group")}};
  const std::vector<Kind> kinds{{"mlp", {20}, {{"hidden", Widths{8, 5}}}},
                                {"cnn_mnist", {1, 12, 8}, {}},
                                {"cnn_cifar", {3, 8, 8}, {}},
                                // Without biases; strides; groups, which are not shown. Only group norm keeps examples
                                // apart, so that each has a gradient of its own.
                                {"lenet", {1, 8, 12}, group},
                                {"resnet18", {3, 5, 4}, group},
                                {"mobilenetv2", {3, 4, 4}, group}};
  for (const auto& [name, shape, options] : kinds) {
    SCOPED_TRACE(name);
    const Task task{.input_shape = shape, .outputs = 3};
    check(*make(name, "torch", task, options), task);
  }
}

TEST(ShownLayers, MakeUpTheGradient) {
  for_each_network([](Model& model, const Task& task) {
    const RandomBatch batch(3, task);
    std::vector<float> sum(model.layout().size(), 0.0f);
    const auto seen = watch(model, [&] { model.backward(batch.get()); });
    ASSERT_EQ(seen.size(), model.layers().size());
    for (const auto& one : seen) add_gradient(model.layers()[one.index], one, sum);
    for (const auto& layer : model.layers()) {
      EXPECT_LT(largest_difference(layer.weight.of(std::span(sum)), layer.weight.of(model.gradients())), 1e-5);
      if (!layer.bias) continue;
      EXPECT_LT(largest_difference(layer.bias->of(std::span(sum)), layer.bias->of(model.gradients())), 1e-5);
    }
  });
}

TEST(ShownLayers, HaveNoDeltasInPrediction) {
  for_each_network([](Model& model, const Task& task) {
    const RandomBatch batch(3, task);
    const auto seen = watch(model, [&] { predict(model, batch.get()); });
    ASSERT_EQ(seen.size(), model.layers().size());
    for (const auto& one : seen) {
      EXPECT_EQ(one.inputs.size(), one.rows * model.layers()[one.index].in());
      EXPECT_EQ(one.rows, 3 * one.rows_per_example);
      EXPECT_TRUE(one.deltas.empty());
    }
  });
}

TEST(ShownLayers, DoNotChangeTheStep) {
  for_each_network([](Model& model, const Task& task) {
    const RandomBatch batch(3, task);
    model.backward(batch.get());
    const auto unseen = copy(model.gradients());
    watch(model, [&] { model.backward(batch.get()); });
    EXPECT_EQ(copy(model.gradients()), unseen);
  });
}

// How far two orders of summing the same gradient may part, relative to the largest: every layer, forwards and back,
// adds a few roundings of a float (its products' sums, and the norm behind it, which divides by a deviation), and
// squaring doubles them.
double rounding(const Model& model) {
  constexpr double kRoundingsALayer = 32.0;
  return 2.0 * 2.0 * static_cast<double>(model.layers().size()) * kRoundingsALayer *
         std::numeric_limits<float>::epsilon();
}

TEST(ShownLayers, GiveTheSquaredGradientOfEachExample) {
  for_each_network([](Model& model, const Task& task) {
    const RandomBatch random(2, task);
    const Batch batch = random.get();
    const std::size_t features = batch.inputs.size() / batch.size;
    Flat expected(model.layout().size(), 0.0f), squares(expected.size(), 0.0f);
    for (std::size_t e = 0; e < batch.size; ++e) {
      model.backward(
          {.size = 1, .inputs = batch.inputs.subspan(e * features, features), .labels = batch.labels.subspan(e, 1)});
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += std::pow(model.gradients()[i], 2.0f);
    }
    model.observe([&](const LayerPass& pass) { add_squared_gradients(pass, squares); });
    model.backward(batch);
    for (const auto& layer : model.layers()) {
      for (const LayoutEntry* entry : {&layer.weight, layer.bias ? &*layer.bias : nullptr}) {
        if (entry == nullptr) continue;
        const auto right = entry->of(std::span(expected));
        const double largest = *std::max_element(right.begin(), right.end());
        EXPECT_LT(largest_difference(entry->of(std::span(squares)), right), rounding(model) * largest) << entry->name;
      }
    }
  });
}

TEST(ShownLayers, AreThoseWithOneProduct) {
  const Task task{.input_shape = {3, 8, 8}, .outputs = 3};
  const auto model = make("mobilenetv2", "torch", task);
  for (const auto& layer : model->layers()) {
    EXPECT_EQ(layer.weight.name.find("depthwise"), std::string::npos);
    EXPECT_EQ(layer.bias.has_value(), layer.weight.name == "fc.weight");
  }
  // Stem, widen and narrow of 17 blocks, four shortcuts, head, fc.
  EXPECT_EQ(model->layers().size(), 1u + 2 * 17 + 4 + 1 + 1);
}

TEST(TorchMlp, ShowsWhatTheNativeOneShows) {
  const Task task{.input_shape = {20}, .outputs = 3};
  const std::map<std::string, Value> options{{"hidden", Widths{8, 5}}, {"dropout", 0.3}};
  const RandomBatch batch(6, task);
  const auto native = make("mlp", "native", task, options), torch = make("mlp", "torch", task, options);
  for (auto* model : {native.get(), torch.get()}) model->reseed(Stream(5, "noise"));
  const auto expected = watch(*native, [&] { native->backward(batch.get()); });
  const auto seen = watch(*torch, [&] { torch->backward(batch.get()); });
  ASSERT_EQ(seen.size(), expected.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].index, expected[i].index);
    EXPECT_EQ(torch->layers()[i].weight.name, native->layers()[i].weight.name);
    EXPECT_EQ(seen[i].rows, expected[i].rows);
    EXPECT_EQ(seen[i].rows_per_example, expected[i].rows_per_example);
    EXPECT_LT(largest_difference(seen[i].inputs, expected[i].inputs), 1e-6);
    EXPECT_LT(largest_difference(seen[i].deltas, expected[i].deltas), 1e-6);
  }
}

}  // namespace
}  // namespace parley
