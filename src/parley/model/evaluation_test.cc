#include "parley/model/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "parley/base/errors.h"
#include "parley/model/gradient_check.h"

namespace parley {
namespace {

// Its outputs are its inputs, so that a test writes the logits into the data.
class Echo final : public Model {
 public:
  Echo(std::size_t outputs, Loss loss) : outputs_(outputs), loss_(loss) {}
  const Layout& layout() const override { return layout_; }
  std::span<float> parameters() override { return {}; }
  std::span<float> gradients() override { return {}; }
  double backward(const Batch&) override { return 0.0; }
  void predict(const Batch& batch, std::span<float> outputs) override {
    std::copy(batch.inputs.begin(), batch.inputs.end(), outputs.begin());
  }
  std::size_t outputs() const override { return outputs_; }
  Loss loss() const override { return loss_; }

 private:
  Layout layout_;
  std::size_t outputs_;
  Loss loss_;
};

Dataset classes(std::int64_t width, std::vector<float> outputs, std::vector<std::int32_t> labels) {
  Dataset data;
  data.shape = {width};
  data.values = std::move(outputs);
  data.labels = std::move(labels);
  data.classes = static_cast<std::size_t>(width);
  return data;
}

float log_odds(double p) {
  return static_cast<float>(std::log(p / (1.0 - p)));
}

TEST(Evaluation, AgreesWithAHandComputedExample) {
  // Probabilities of class 0: 0.9 (right), 0.9 (wrong), 0.2 (right: class 1).
  const auto data = classes(2, {log_odds(0.9), 0, log_odds(0.9), 0, log_odds(0.2), 0}, {0, 1, 1});
  Echo model(2, Loss::cross_entropy);
  const auto result = evaluate(model, WholeView(data).view());
  EXPECT_EQ(result.examples, 3u);
  EXPECT_EQ(result.correct, 2u);
  EXPECT_NEAR(result.accuracy(), 2.0 / 3.0, 1e-12);
  EXPECT_NEAR(result.loss(), -(std::log(0.9) + std::log(0.1) + std::log(0.8)) / 3.0, 1e-6);
  EXPECT_NEAR(result.brier(), 2.0 * (0.01 + 0.81 + 0.04) / 3.0, 1e-6);
  EXPECT_EQ(result.class_total, (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(result.class_correct, (std::vector<std::size_t>{1, 1}));
  EXPECT_EQ(result.confusion, (std::vector<std::size_t>{1, 0, 1, 1})) << "one of class 1 was taken for class 0";
  // Bin (13/15, 14/15]: two rows, mean confidence 0.9, accuracy ½. Bin (11/15, 12/15]: one row,
  // 0.8, right.
  EXPECT_EQ(result.bins[13].count, 2u);
  EXPECT_NEAR(result.ece(), (2.0 * 0.4 + 0.2) / 3.0, 1e-6);
}

// Rows of probabilities; the label of each is given.
Evaluation of_probabilities(const std::vector<float>& rows, const std::vector<std::int32_t>& labels) {
  std::vector<float> logits;
  for (const float p : rows) logits.push_back(std::log(p));
  const std::size_t width = rows.size() / labels.size();
  const auto data = classes(width, logits, labels);
  Echo model(width, Loss::cross_entropy);
  return evaluate(model, WholeView(data).view());
}

TEST(Evaluation, CoverageIsOfTheFewestClassesThatHoldNineTenths) {
  const std::vector<float> doubtful{.5f, .1f, .3f, .1f};  // .5 + .3 is less than .9: three, the earlier of equals first
  for (std::int32_t label = 0; label < 4; ++label) {
    const auto result = of_probabilities(doubtful, {label});
    EXPECT_EQ(result.set_size(), 3.0);
    EXPECT_EQ(result.coverage(), label == 3 ? 0.0 : 1.0) << label;
  }
  // One class that has nine tenths is enough; one with hardly less is not.
  EXPECT_EQ(of_probabilities({.05f, .9f, .05f}, {0}).set_size(), 1.0);
  EXPECT_EQ(of_probabilities({.05f, .9f, .05f}, {0}).coverage(), 0.0);
  EXPECT_EQ(of_probabilities({.06f, .89f, .05f}, {0}).set_size(), 2.0);
  EXPECT_EQ(of_probabilities({.06f, .89f, .05f}, {0}).coverage(), 1.0);
  const auto two = of_probabilities({.05f, .9f, .05f, .4f, .3f, .3f}, {0, 2});
  EXPECT_EQ(two.coverage(), 0.5);
  EXPECT_EQ(two.set_size(), 2.0);
}

TEST(Evaluation, IsStableForLargeLogits) {
  const auto data = classes(2, {1000, 0, 1000, 0}, {0, 1});
  Echo model(2, Loss::cross_entropy);
  EXPECT_NEAR(evaluate(model, WholeView(data).view()).loss(), 500.0, 1e-9);
}

TEST(Evaluation, OfLeastSquaresOnClasses) {
  const auto data = classes(2, {0.75f, 0.25f, 0.5f, 2.0f}, {0, 0});
  Echo model(2, Loss::mse);
  const auto result = evaluate(model, WholeView(data).view());
  EXPECT_DOUBLE_EQ(result.loss(), (0.125 / 2 + (0.25 + 4.0) / 2) / 2);
  EXPECT_DOUBLE_EQ(result.brier(), (0.125 + 4.25) / 2);
  EXPECT_EQ(result.correct, 1u);
  EXPECT_DOUBLE_EQ(result.ece(), (0.25 + 1.0) / 2);
}

TEST(Evaluation, OfRegressionIsInTheTargetsOwnUnits) {
  Dataset data;
  data.shape = {2};
  data.values = std::vector<float>{1, 2, 3, 4};
  data.targets = {0, 0, 3, 2};
  data.target_size = 2;
  Echo model(2, Loss::mse);
  const auto result = evaluate(model, WholeView(data).view());
  EXPECT_FALSE(result.classified());
  EXPECT_DOUBLE_EQ(result.loss(), (2.5 + 2.0) / 2);
  // Errors 1, 0 of a target that is 0, 3 and errors 2, 2 of one that is 0, 2.
  EXPECT_DOUBLE_EQ(result.mae(), (0.5 + 2.0) / 2);
  EXPECT_DOUBLE_EQ(result.rmse(), (std::sqrt(0.5) + 2.0) / 2);
  EXPECT_DOUBLE_EQ(result.r2().value(), ((1.0 - 1.0 / 4.5) + (1.0 - 8.0 / 2.0)) / 2);

  data.target_transform = {.scale = {0.5f, 0.1f}, .shift = {7, 8}};  // they were 2 and 10 times as large
  auto own = evaluate(model, WholeView(data).view());
  EXPECT_NEAR(own.mae(), (2 * 0.5 + 10 * 2.0) / 2, 1e-6);  // 0.1 is no float
  EXPECT_NEAR(own.rmse(), (2 * std::sqrt(0.5) + 10 * 2.0) / 2, 1e-6);
  EXPECT_DOUBLE_EQ(own.r2().value(), result.r2().value());
  own.merge(own);
  EXPECT_NEAR(own.mae(), (2 * 0.5 + 10 * 2.0) / 2, 1e-6);
  EXPECT_NEAR(own.rmse(), (2 * std::sqrt(0.5) + 10 * 2.0) / 2, 1e-6);
  EXPECT_DOUBLE_EQ(own.r2().value(), result.r2().value());

  data.targets = {3, 0.1f, 3, 0.1f};
  EXPECT_FALSE(evaluate(model, WholeView(data).view()).r2());
}

TEST(Evaluation, OfPartsMergesIntoTheWhole) {
  const Task task{.input_shape = {5}, .outputs = 5};
  const testing::RandomBatch batch(103, task);
  const auto inputs = batch.get().inputs;
  const auto labels = batch.get().labels;
  const auto data = classes(5, {inputs.begin(), inputs.end()}, {labels.begin(), labels.end()});
  const WholeView whole(data);
  Echo model(5, Loss::cross_entropy);
  const auto expected = evaluate(model, whole.view());
  EvaluationBuffer buffer;
  Evaluation merged;
  for (const auto& [begin, end] : {std::pair{0, 40}, {40, 41}, {41, 41}, {41, 103}}) {
    merged.merge(
        evaluate(model, whole.view(), static_cast<std::size_t>(begin), static_cast<std::size_t>(end), buffer, 7));
  }
  EXPECT_EQ(merged.examples, expected.examples);
  EXPECT_EQ(merged.correct, expected.correct);
  EXPECT_EQ(merged.class_total, expected.class_total);
  EXPECT_EQ(merged.class_correct, expected.class_correct);
  EXPECT_EQ(merged.confusion, expected.confusion);
  EXPECT_NEAR(merged.loss(), expected.loss(), 1e-12);
  EXPECT_NEAR(merged.brier(), expected.brier(), 1e-12);
  EXPECT_NEAR(merged.ece(), expected.ece(), 1e-12);
  EXPECT_EQ(merged.coverage(), expected.coverage());
  EXPECT_EQ(merged.set_size(), expected.set_size());
}

TEST(Evaluation, OfAPredictionIsThatOfTheModelThatMadeIt) {
  const testing::RandomBatch batch(1203, {.input_shape = {5}, .outputs = 5});
  const auto inputs = batch.get().inputs;
  const auto labels = batch.get().labels;
  const auto data = classes(5, {inputs.begin(), inputs.end()}, {labels.begin(), labels.end()});
  Echo model(5, Loss::cross_entropy);
  MeanPrediction prediction(Loss::cross_entropy, 1203, 5);
  prediction.add(0, 0, inputs);
  const auto expected = evaluate(model, WholeView(data).view()), got = evaluate(prediction, WholeView(data).view());
  EXPECT_EQ(got.examples, expected.examples);
  EXPECT_EQ(got.correct, expected.correct);
  EXPECT_EQ(got.class_correct, expected.class_correct);
  EXPECT_EQ(got.loss(), expected.loss());
  EXPECT_EQ(got.brier(), expected.brier());
  EXPECT_EQ(got.ece(), expected.ece());
}

TEST(Evaluation, OfADivergedModelIsAFailure) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {nan, inf}) {
    for (const auto loss : {Loss::cross_entropy, Loss::mse}) {
      const auto data = classes(2, {1, 0, 0, bad}, {0, 1});
      Echo model(2, loss);
      EXPECT_THROW(evaluate(model, WholeView(data).view()), RunError);
    }
  }
}

}  // namespace
}  // namespace parley
