#include "parley/model/curvature.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "parley/model/mlp.h"

namespace parley {
namespace {

// A small network and a batch, the weights drawn by name.
struct Fixture {
  std::unique_ptr<Model> model = make_native_mlp({.widths = {5, 7, 3}, .activation = Activation::tanh});
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;

  explicit Fixture(std::size_t size) : inputs(size * 5), labels(size) {
    Stream stream(1, "curvature");
    initialise(model->layout(), model->parameters(), stream);
    for (auto& x : inputs) x = static_cast<float>(stream.normal());
    for (auto& y : labels) y = static_cast<std::int32_t>(stream.below(3));
  }
  Batch rows(std::size_t begin, std::size_t count) const {
    return {.size = count,
            .inputs = std::span(inputs).subspan(begin * 5, count * 5),
            .labels = std::span(labels).subspan(begin, count)};
  }
};

TEST(Curvature, SquaresOfABatchAreTheSumOfOneBackwardAnExample) {
  Fixture f(6);
  Flat expected(f.model->layout().size(), 0.0f), squares(expected.size(), 0.0f);
  for (std::size_t i = 0; i < 6; ++i) {
    f.model->backward(f.rows(i, 1));
    for (std::size_t p = 0; p < expected.size(); ++p) expected[p] += f.model->gradients()[p] * f.model->gradients()[p];
  }
  f.model->observe([&](const LayerPass& pass) { add_squared_gradients(pass, squares); });
  f.model->backward(f.rows(0, 6));
  f.model->observe({});
  for (std::size_t p = 0; p < expected.size(); ++p) EXPECT_NEAR(squares[p], expected[p], 1e-5);
}

// A layer whose rows are patches: two examples of three rows each, against outer products by hand.
TEST(Curvature, PatchesOfAnExampleAreSummedBeforeTheSquare) {
  const Layout layout({{"w", {2, 2}}, {"b", {2}, Role::bias}});
  const Layer layer{layout.entries()[0], layout.entries()[1]};
  Stream stream(3, "patches");
  std::vector<float> a(6 * 2), d(6 * 2);
  for (auto& x : a) x = static_cast<float>(stream.normal());
  for (auto& x : d) x = static_cast<float>(stream.normal());
  Flat squares(6, 0.0f);
  add_squared_gradients({0, layer, 6, 3, a, d}, squares);
  for (std::size_t i = 0; i < 2; ++i) {
    double bias_square = 0.0;
    for (std::size_t j = 0; j < 2; ++j) {
      double square = 0.0;
      for (std::size_t e = 0; e < 2; ++e) {
        double gradient = 0.0;
        for (std::size_t r = 3 * e; r < 3 * e + 3; ++r) gradient += 2.0 * d[r * 2 + i] * a[r * 2 + j];
        square += gradient * gradient;
      }
      EXPECT_NEAR(squares[i * 2 + j], square, 1e-4);
    }
    for (std::size_t e = 0; e < 2; ++e) {
      double gradient = 0.0;
      for (std::size_t r = 3 * e; r < 3 * e + 3; ++r) gradient += 2.0 * d[r * 2 + i];
      bias_square += gradient * gradient;
    }
    EXPECT_NEAR(squares[4 + i], bias_square, 1e-4);
  }
}

// A layer of one input and a bias whose patches are numbered: which of them are added shows in their sum.
TEST(Curvature, GramOfManyPatchesTakesSomeOfEachExampleAndAllPlacesInTurn) {
  const Layer layer{.weight = {.name = "w", .shape = {1, 1}, .offset = 0, .size = 1},
                    .bias = LayoutEntry{.name = "b", .shape = {1}, .offset = 1, .size = 1}};
  constexpr std::size_t kPatches = 40, kExamples = 40;
  std::vector<std::size_t> times(kPatches, 0);
  for (std::size_t patch = 0; patch < kPatches; ++patch) {
    std::vector<float> inputs(kExamples * kPatches, 0.0f);
    for (std::size_t e = 0; e < kExamples; ++e) inputs[e * kPatches + patch] = 1.0f;
    std::vector<float> gram(4, 0.0f);
    EXPECT_EQ(add_input_gram({.index = 0,
                              .layer = layer,
                              .rows = inputs.size(),
                              .rows_per_example = kPatches,
                              .inputs = inputs,
                              .deltas = {}},
                             gram),
              kExamples * 16);
    EXPECT_EQ(gram[3], kExamples * 16);  // the bias's own
    times[patch] = static_cast<std::size_t>(gram[0]);
  }
  EXPECT_EQ(std::accumulate(times.begin(), times.end(), std::size_t{0}), kExamples * 16);
  EXPECT_EQ(*std::ranges::min_element(times), 16u);
}

TEST(Curvature, ProductsOfInputsAreThoseOfTheirGram) {
  Fixture f(6);
  constexpr std::size_t kWidth = 6, kCount = 2;
  Flat gram(kWidth * kWidth, 0.0f), directions(kWidth * kCount), products(kWidth * kCount, 0.0f);
  Stream stream(8, "directions");
  for (float& x : directions) x = static_cast<float>(stream.normal());
  double trace = 0.0;
  std::size_t rows = 0;
  f.model->observe([&](const LayerPass& pass) {
    if (pass.index > 0) return;
    rows += add_input_products(pass, directions, kCount, products, trace);
    EXPECT_EQ(add_input_gram(pass, gram), rows);
  });
  f.model->backward(f.rows(0, 6));
  f.model->observe({});
  double diagonal = 0.0;
  for (std::size_t i = 0; i < kWidth; ++i) {
    diagonal += double{gram[i * kWidth + i]};
    for (std::size_t k = 0; k < kCount; ++k) {
      double expected = 0.0;
      for (std::size_t j = 0; j < kWidth; ++j) {
        expected += double{gram[std::max(i, j) * kWidth + std::min(i, j)]} * double{directions[j * kCount + k]};
      }
      EXPECT_NEAR(products[i * kCount + k], expected, 1e-4);
    }
  }
  EXPECT_NEAR(trace, diagonal, 1e-4);
}

TEST(Curvature, OutputGramIsThatOfEachExamplesOwnGradient) {
  Fixture f(4);
  std::vector<float> batched(9, 0.0f), single(9, 0.0f);
  const auto watch = [&](std::vector<float>& gram) {
    f.model->observe([&](const LayerPass& pass) {
      if (pass.layer.out() == 3) add_output_gram(pass, gram);
    });
  };
  watch(batched);
  f.model->backward(f.rows(0, 4));
  watch(single);
  for (std::size_t e = 0; e < 4; ++e) f.model->backward(f.rows(e, 1));
  for (std::size_t i = 0; i < 9; ++i) EXPECT_NEAR(batched[i], single[i], 1e-5);
}

TEST(Curvature, GramOfTheFirstLayerIsThatOfTheData) {
  Fixture f(4);
  std::vector<float> gram(36, 0.0f), outputs(4 * 3);
  f.model->observe([&](const LayerPass& pass) {
    if (pass.index == 0) add_input_gram(pass, gram);
  });
  f.model->predict(f.rows(0, 4), outputs);
  for (std::size_t i = 0; i < 6; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double expected = 0.0;
      for (std::size_t r = 0; r < 4; ++r) {
        expected += (i < 5 ? f.inputs[r * 5 + i] : 1.0) * (j < 5 ? f.inputs[r * 5 + j] : 1.0);
      }
      EXPECT_NEAR(gram[i * 6 + j], expected, 1e-5);
    }
  }
}

TEST(Curvature, ReducedPositionsAreMeansOfInputsAndSumsOfDeltas) {
  const Layout layout({{"w", {1, 2}}});
  const Layer layer{layout.entries()[0], std::nullopt};
  const std::vector<float> a{1, 2, 3, 4, 5, 6, 7, 8}, d{1, -2, 3, 5};  // two examples of two positions
  Flat inputs, deltas;
  const LayerPass reduced = reduce_positions({0, layer, 4, 2, a, d}, inputs, deltas);
  EXPECT_EQ(reduced.rows, 2u);
  EXPECT_EQ(reduced.rows_per_example, 1u);
  EXPECT_EQ(inputs, (Flat{2, 3, 6, 7}));
  EXPECT_EQ(deltas, (Flat{-1, 8}));
  // An example's gradient at the shared weights is the sum over positions, so its deltas' gram is that of the sums.
  std::vector<float> gram{0.0f};
  add_output_gram(reduced, gram);
  EXPECT_EQ(gram[0], 4.0f * (1.0f + 64.0f));  // of each example's own loss: twice the delta of the mean
}

TEST(Curvature, WeightsOfExamplesWeighTheirRows) {
  const Layout layout({{"w", {1, 1}}});
  const Layer layer{layout.entries()[0], std::nullopt};
  const std::vector<float> a{0, 0, 0, 0}, d{1, 2, 3, 4}, weights{0.25f, 4.0f};
  std::vector<float> gram{0.0f};
  add_output_gram({0, layer, 4, 2, a, d}, gram, weights);
  EXPECT_FLOAT_EQ(gram[0], 4.0f * (0.25f * (1 + 4) + 4.0f * (9 + 16)));
}

}  // namespace
}  // namespace parley
