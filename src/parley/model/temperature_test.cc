#include "parley/model/temperature.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "parley/base/random.h"
#include "parley/model/evaluation.h"
#include "parley/model/losses.h"

namespace parley {
namespace {

// Rows of logits, with labels drawn from softmax(logits / true_temperature).
class Drawn {
 public:
  Drawn(std::size_t rows, double true_temperature) : logits_(rows * kClasses), rows_(rows) {
    Stream stream(5, "temperature");
    std::vector<std::int32_t> labels;
    for (std::size_t i = 0; i < rows; ++i) {
      const auto row = std::span(logits_).subspan(i * kClasses, kClasses);
      Flat p(kClasses);
      for (std::size_t c = 0; c < kClasses; ++c) {
        row[c] = static_cast<float>(3.0 * stream.normal());
        p[c] = static_cast<float>(static_cast<double>(row[c]) / true_temperature);
      }
      softmax(p);
      double left = stream.uniform();
      std::int32_t label = 0;
      while (label + 1 < static_cast<std::int32_t>(kClasses) && (left -= static_cast<double>(p[label])) > 0.0) ++label;
      labels.push_back(label);
    }
    std::iota(rows_.begin(), rows_.end(), 0u);
    data_.shape = {1};
    data_.classes = kClasses;
    data_.values = std::vector<float>(rows);
    data_.labels = std::move(labels);
  }

  MeanPrediction prediction() const {
    MeanPrediction mean(Loss::cross_entropy, rows_.size(), kClasses);
    mean.add(0, 0, logits_);
    return mean;
  }
  View view() const { return {.data = &data_, .rows = rows_}; }

 private:
  static constexpr std::size_t kClasses = 4;
  Flat logits_;
  std::vector<std::uint32_t> rows_;
  Dataset data_;
};

TEST(Temperature, OfLabelsThatWereDrawnWithOneIsFoundAgain) {
  // The estimate's standard deviation is 1/√(rows·Fisher information), about 1 % of T for 10,000 rows here.
  for (const double truth : {0.5, 1.0, 2.5})
    EXPECT_NEAR(best_temperature(Drawn(10'000, truth).prediction(), Drawn(10'000, truth).view()) / truth, 1.0, 0.06);
}

TEST(Temperature, LossIsLowestThere) {
  const Drawn drawn(500, 2.0);
  const double best = best_temperature(drawn.prediction(), drawn.view());
  const auto loss_at = [&](double t) { return evaluate(at_temperature(drawn.prediction(), t), drawn.view()).loss(); };
  EXPECT_LT(loss_at(best), loss_at(1.01 * best));
  EXPECT_LT(loss_at(best), loss_at(best / 1.01));
  EXPECT_LT(loss_at(best), loss_at(1.0));
}

TEST(Temperature, DoesNotChangeAGuess) {
  const Drawn drawn(500, 2.0);
  const auto before = evaluate(drawn.prediction(), drawn.view());
  const auto after = evaluate(at_temperature(drawn.prediction(), 7.0), drawn.view());
  EXPECT_EQ(after.correct, before.correct);
  EXPECT_GT(before.loss(), 0.0);
}

TEST(Temperature, OfOneIsTheSameBits) {
  const Drawn drawn(50, 2.0);
  const auto before = drawn.prediction(), after = at_temperature(before, 1.0);
  EXPECT_TRUE(std::ranges::equal(after.outputs(), before.outputs()));
}

// Always right: the surer the better. Always wrong: the less sure the better. Neither has a best temperature.
TEST(Temperature, StopsAtItsBounds) {
  Dataset data;
  data.shape = {1};
  data.classes = 2;
  data.values = std::vector<float>(2);
  data.labels = {0, 1};
  const std::vector<std::uint32_t> rows{0, 1};
  MeanPrediction right(Loss::cross_entropy, 2, 2), wrong(Loss::cross_entropy, 2, 2);
  right.add(0, 0, Flat{1, 0, 0, 1});
  wrong.add(0, 0, Flat{0, 1, 1, 0});
  EXPECT_EQ(best_temperature(right, {.data = &data, .rows = rows}), 0.05);
  EXPECT_EQ(best_temperature(wrong, {.data = &data, .rows = rows}), 20.0);
}

}  // namespace
}  // namespace parley
