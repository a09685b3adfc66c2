#include "parley/model/stacked_mlp.h"

#include <gtest/gtest.h>

#include <cmath>

#include "parley/model/gradient_check.h"

namespace parley {
namespace {

// Networks of a plan with different weights, and what each gives by itself.
class Alone {
 public:
  Alone(const MlpPlan& plan, std::size_t networks, const Batch& batch) : outputs_(networks) {
    for (std::size_t k = 0; k < networks; ++k) {
      const auto model = make_native_mlp(plan);
      Stream stream(k + 1, "weights");
      initialise(model->layout(), model->parameters(), stream);
      weights_.emplace_back(model->parameters().begin(), model->parameters().end());
      outputs_[k].resize(batch.size * model->outputs());
      model->predict(batch, outputs_[k]);
    }
  }
  const Flat& weights(std::size_t k) const { return weights_[k]; }
  float output(std::size_t at) const { return outputs_[at / outputs_[0].size()][at % outputs_[0].size()]; }
  std::size_t size() const { return outputs_.size() * outputs_[0].size(); }

 private:
  std::vector<Flat> weights_, outputs_;
};

TEST(StackedMlp, GivesWhatEachNetworkGivesByItself) {
  for (const std::vector<std::size_t>& widths : {std::vector<std::size_t>{5, 3}, {7, 4, 2}, {33, 8, 6, 3}}) {
    for (const Activation activation : {Activation::relu, Activation::sigmoid, Activation::tanh}) {
      const MlpPlan plan{.widths = widths, .activation = activation};
      const testing::RandomBatch random(
          9, {.input_shape = {static_cast<std::int64_t>(widths[0])}, .outputs = widths.back()}, 1);
      const Alone alone(plan, 6, random.get());
      StackedMlp stack(plan, 6);
      for (const std::size_t networks :
           {std::size_t{6}, std::size_t{1}}) {  // a full stack, then the rest of a population
        stack.load(networks,
                   [&](std::size_t k, std::span<float> to) { std::ranges::copy(alone.weights(k), to.begin()); });
        Flat outputs(alone.size() / 6 * networks);
        stack.predict(random.get(), outputs);
        // Sums of up to 33 products of size about 1, in another order.
        for (std::size_t i = 0; i < outputs.size(); ++i) EXPECT_NEAR(outputs[i], alone.output(i), 1e-5);
      }
    }
  }
}

TEST(StackedMlp, StacksTheNarrowOnly) {
  EXPECT_EQ(networks_to_stack({.widths = {320, 8, 2}}), 64u);
  EXPECT_EQ(networks_to_stack({.widths = {784, 500, 10}}), 1u);
  EXPECT_EQ(networks_to_stack({.widths = {784, 2000, 10}}), 1u);
}

}  // namespace
}  // namespace parley
