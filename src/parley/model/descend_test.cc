// Model::descend() against backward() and a step.
#include <gtest/gtest.h>

#include <cmath>

#include "parley/model/gradient_check.h"
#include "parley/model/small_products.h"
#include "parley/tensor/flat.h"

namespace parley {
namespace {

constexpr float kRate = 0.1f;
const Task kImages{.input_shape = {1, 20, 20}, .outputs = 3};

std::unique_ptr<Model> make(const std::string& name) {
  const auto registry = native_models();
  const auto& entry = registry.at(name);
  Options options("model", entry.about.options);
  if (name == "mlp") {
    options.set("hidden", std::vector<std::int64_t>{37, 21});  // no multiples of any register
    options.set("dropout", 0.3);
  }
  auto model = choose_backend(entry, "native")(options, kImages);
  testing::initialise(*model);
  return model;
}

class Descends : public ::testing::TestWithParam<const char*> {};

TEST_P(Descends, AsBackwardAndAStepDo) {
  const auto one = make(GetParam()), other = make(GetParam());
  const testing::RandomBatch batch(6, kImages);
  const Stream noise(3, "noise");
  one->reseed(noise);
  other->reseed(noise);
  for (int step = 0; step < 3; ++step) {
    const double loss = one->backward(batch.get());
    for (std::size_t i = 0; i < one->layout().trainable(); ++i) one->parameters()[i] -= kRate * one->gradients()[i];
    const auto same = other->descend(batch.get(), kRate);
    ASSERT_TRUE(same);
    EXPECT_NEAR(*same, loss, 1e-6 * (1.0 + loss));
    for (std::size_t i = 0; i < one->layout().size(); ++i) {
      ASSERT_NEAR(other->parameters()[i], one->parameters()[i], 2e-6 * (1.0 + std::abs(one->parameters()[i])))
          << i << " after step " << step + 1;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Descends, ::testing::Values("linear", "logistic", "mlp", "cnn_mnist", "lenet", "cnn4"),
                         [](const auto& name) { return std::string(name.param); });

// What it saves is not felt there, and it has room for so many examples alone.
TEST(Descend, LeavesLargeBatchesAlone) {
  const auto model = make("logistic");
  const Flat before(model->parameters().begin(), model->parameters().end());
  EXPECT_FALSE(model->descend(testing::RandomBatch(kMostExamples + 1, kImages).get(), kRate));
  EXPECT_TRUE(std::ranges::equal(before, model->parameters()));
  EXPECT_TRUE(model->descend(testing::RandomBatch(kMostExamples, kImages).get(), kRate));
  EXPECT_FALSE(std::ranges::equal(before, model->parameters()));
}

// 2 examples, 2 outputs and 3 inputs by hand, and a place behind the weights that stays as it is.
TEST(Descend, IsTheStepByHand) {
  const Flat deltas{1.0f, 2.0f, -1.0f, 0.5f}, inputs{1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f};
  Flat weight{0.0f, 0.0f, 0.0f, 1.0f, 1.0f, 1.0f, 7.0f};
  descend(2, 2, 3, deltas.data(), inputs.data(), 2.0f, weight.data());
  EXPECT_EQ(weight, (Flat{6.0f, 6.0f, 6.0f, -7.0f, -12.0f, -17.0f, 7.0f}));
}

}  // namespace
}  // namespace parley
