#include "parley/model/quadratic.h"

#include <gtest/gtest.h>

#include "parley/model/evaluation.h"
#include "parley/model/gradient_check.h"

namespace parley {
namespace {

std::unique_ptr<Model> make(const Dataset& data) {
  const auto registry = native_models();
  const Task task{.input_shape = data.shape, .outputs = data.target_size, .loss = Loss::mse};
  return choose_backend(registry.at("quadratic"), "auto")(Options("model"), task);
}

TEST(Quadratic, HasTheLossAndGradientOfItsFormula) {
  const auto data = quadratic_dataset({{1, 4}, {3, 2}}, {{0, 1}, {2, -1}});
  const auto model = make(data);
  model->parameters()[0] = 1.0f;
  model->parameters()[1] = 2.0f;
  const WholeView whole(data);
  BatchBuffer buffer;
  const Batch batch = buffer.gather_range(whole.view(), 0, 2);
  // Rows: ½(1·1² + 4·1²) = 2.5 and ½(3·1² + 2·3²) = 10.5.
  EXPECT_DOUBLE_EQ(model->backward(batch), 6.5);
  EXPECT_FLOAT_EQ(model->gradients()[0], (1.0f * 1 + 3.0f * -1) / 2);
  EXPECT_FLOAT_EQ(model->gradients()[1], (4.0f * 1 + 2.0f * 3) / 2);
  EXPECT_LT(testing::gradient_error(*model, batch, 1e-2), 1e-4);
}

TEST(Quadratic, EvaluatesToItsLoss) {
  const auto data = quadratic_dataset({{1, 4, 0}, {3, 2, 1}}, {{0, 1, 5}, {2, -1, 4}});
  const auto model = make(data);
  testing::initialise(*model);
  const WholeView whole(data);
  BatchBuffer buffer;
  const double loss = model->backward(buffer.gather_range(whole.view(), 0, 2));
  const auto evaluation = evaluate(*model, whole.view());
  EXPECT_NEAR(evaluation.loss(), loss, 1e-5);
  EXPECT_FALSE(evaluation.classified());
}

}  // namespace
}  // namespace parley
