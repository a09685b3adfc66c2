#include "parley/methods/rnn_aggregator/rnn_aggregator.h"

#include <gtest/gtest.h>

#include <cmath>

#include "parley/engine/test_bed.h"
#include "parley/methods/rnn_aggregator/coordinate_lstm.h"

namespace parley {
namespace {

// More coordinates than a block has, and as many clients as a sequence needs to remember something.
struct Problem {
  Problem() : lstm(3), weights(lstm.size()), steps(4) {
    Stream stream(1, "test");
    for (float& x : weights) x = static_cast<float>(0.5 * stream.normal());
    for (auto& step : steps) {
      step.resize(700);
      for (float& x : step) x = static_cast<float>(stream.normal());
      sequence.steps.emplace_back(step);
      sequence.shares.push_back(0.25f);
    }
  }
  std::vector<float> answers() const {
    std::vector<float> result(700);
    lstm.answer(weights, sequence, result);
    return result;
  }

  CoordinateLstm lstm;
  std::vector<float> weights;
  std::vector<std::vector<float>> steps;
  CoordinateLstm::Sequence sequence;
};

// Large and small steps alike stay within reach of a gate, and both branches meet.
TEST(CoordinateLstm, ReadsStepsOfAnySize) {
  EXPECT_FLOAT_EQ(readable(1.0f).size, 0.0f);
  EXPECT_FLOAT_EQ(readable(std::exp(5.0f)).size, 0.5f);
  EXPECT_FLOAT_EQ(readable(-std::exp(-5.0f)).size, -0.5f);
  EXPECT_EQ(readable(-3.0f).direction, -1.0f);
  EXPECT_EQ(readable(1e-3f).direction, 1.0f);
  EXPECT_EQ(readable(0.0f).size, -1.0f);
  EXPECT_EQ(readable(0.0f).direction, 0.0f);
  EXPECT_FLOAT_EQ(readable(-0.5f * std::exp(-10.0f)).direction, -0.5f);
  EXPECT_NEAR(readable(1.001f * std::exp(-10.0f)).size, -1.0f, 1e-3);
}

TEST(CoordinateLstm, BeginsWithoutAnAnswer) {
  Problem problem;
  Stream stream(2, "test");
  problem.lstm.initialise(problem.weights, stream);
  for (const float x : problem.answers()) EXPECT_EQ(x, 0.0f);
}

TEST(CoordinateLstm, AnswersEachCoordinateByItself) {
  Problem problem;
  const auto before = problem.answers();
  problem.steps[2][600] += 1.0f;
  const auto after = problem.answers();
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(before[i] == after[i], i != 600) << i;
}

TEST(CoordinateLstm, ItsGradientIsThatOfFiniteDifferences) {
  Problem problem;
  const std::vector<std::size_t> coordinates = {3, 699, 3};
  const std::vector<float> slopes = {1.0f, -2.0f, 0.5f};
  std::vector<float> gradient(problem.weights.size(), 0.0f);
  problem.lstm.add_gradient(problem.weights, problem.sequence, coordinates, slopes, gradient);
  const auto total = [&] {
    const auto answers = problem.answers();
    double sum = 0.0;
    for (std::size_t j = 0; j < coordinates.size(); ++j) sum += slopes[j] * answers[coordinates[j]];
    return sum;
  };
  for (std::size_t w = 0; w < problem.weights.size(); ++w) {
    const float kept = problem.weights[w], h = 1e-2f;
    problem.weights[w] = kept + h;
    const double above = total();
    problem.weights[w] = kept - h;
    const double below = total();
    problem.weights[w] = kept;
    EXPECT_NEAR(gradient[w], (above - below) / (2 * h), 2e-3) << w;
  }
}

const TestBed::Quadratics kTwo{.h = {{1, 1}, {10, 10}}, .m = {{0, 0}, {1, 1}}};

TEST(RnnAggregator, WithoutTrainingIsFedAvg) {
  TestBed rnn("rnn_aggregator", kTwo, with(local(0.05, 5), "method.steps", std::int64_t{0})),
      avg("fedavg", kTwo, local(0.05, 5));
  rnn.rounds(5);
  avg.rounds(5);
  for (int j = 0; j < 2; ++j) EXPECT_NEAR(rnn.theta()[j], avg.theta()[j], 1e-6);
}

// Ten local steps hold fedavg at 0.713; the server sees the loss, and learns to go on from there to 10/11.
TEST(RnnAggregator, LearnsToUndoTheDriftOfTheMean) {
  TestBed rnn("rnn_aggregator", kTwo, local(0.05, 10)), avg("fedavg", kTwo, local(0.05, 10));
  rnn.rounds(200);
  avg.rounds(200);
  EXPECT_LT(std::abs(rnn.theta()[0] - 10.0 / 11), 0.3 * std::abs(avg.theta()[0] - 10.0 / 11));
}

}  // namespace
}  // namespace parley
