#include "parley/model/prediction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "parley/base/errors.h"
#include "parley/base/random.h"
#include "parley/model/losses.h"

namespace parley {
namespace {

MeanPrediction prediction_of(Loss loss, std::size_t width, const std::vector<Flat>& networks) {
  MeanPrediction mean(loss, networks[0].size() / width, width);
  for (std::size_t s = 0; s < networks.size(); ++s) mean.add(s, 0, networks[s]);
  return mean;
}

Flat normals(std::size_t count, double deviation, Stream& stream) {
  Flat values(count);
  for (float& x : values) x = static_cast<float>(deviation * stream.normal());
  return values;
}

TEST(MeanPrediction, OfOneNetworkIsItsOutputsBitForBit) {
  const Flat outputs{3.5f, -1.25f, 1e-30f, 700.0f};
  for (const auto loss : {Loss::cross_entropy, Loss::mse}) {
    EXPECT_TRUE(std::ranges::equal(prediction_of(loss, 2, {outputs}).outputs(), outputs));
  }
}

TEST(MeanPrediction, AveragesProbabilities) {
  constexpr std::size_t kRows = 20, kWidth = 5, kNetworks = 7;
  Stream stream(1, "networks");
  std::vector<Flat> networks;
  std::vector<double> expected(kRows * kWidth);
  for (std::size_t s = 0; s < kNetworks; ++s) {
    networks.push_back(normals(kRows * kWidth, 3.0, stream));
    Flat p = networks.back();
    for (std::size_t i = 0; i < kRows; ++i) softmax(std::span(p).subspan(i * kWidth, kWidth));
    for (std::size_t i = 0; i < p.size(); ++i) expected[i] += static_cast<double>(p[i]) / kNetworks;
  }
  const auto mean = prediction_of(Loss::cross_entropy, kWidth, networks);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(std::exp(static_cast<double>(mean.outputs()[i])), expected[i], 1e-6);
  }
}

TEST(MeanPrediction, KeepsWhatEveryNetworkAllButRulesOut) {
  const auto mean = prediction_of(Loss::cross_entropy, 2, {{0, 1000}, {0, 2000}});
  EXPECT_NEAR(mean.outputs()[0], -1000 - std::log(2.0), 1e-3);
  EXPECT_NEAR(mean.outputs()[1], 0.0, 1e-6);
}

TEST(MeanPrediction, AveragesOutputsOfLeastSquares) {
  const auto mean = prediction_of(Loss::mse, 1, {{1, 10}, {2, 20}, {6, 60}});
  EXPECT_FLOAT_EQ(mean.outputs()[0], 3.0f);
  EXPECT_FLOAT_EQ(mean.outputs()[1], 30.0f);
}

TEST(Doubts, AreTheProbabilityOfTheOtherClasses) {
  const auto doubt = doubts(prediction_of(Loss::cross_entropy, 3, {{0, 0, 0, 0, 50, 0, 60, 0, 0}}));
  EXPECT_NEAR(doubt[0], 2.0 / 3.0, 1e-6);
  // Both probabilities are 1 in float and all but so in double; the rows still have an order.
  EXPECT_NEAR(doubt[1] / (2 * std::exp(-50.0)), 1.0, 1e-5);
  EXPECT_LT(doubt[2], doubt[1]);
  EXPECT_NEAR(doubts(prediction_of(Loss::mse, 2, {{0.75f, 0.25f}}))[0], 0.25, 1e-7);
}

TEST(Doubts, OfOutputsThatAreNotFiniteAreRefused) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const auto loss : {Loss::cross_entropy, Loss::mse}) {
      EXPECT_THROW(doubts(prediction_of(loss, 2, {{1, 2, bad, 3}})), RunError);
    }
  }
}

TEST(Auroc, IsTheShareOfPairsInTheRightOrder) {
  Stream stream(1, "pairs");
  for (int trial = 0; trial < 100; ++trial) {
    const std::uint64_t values = 1 + stream.below(20);  // few of them, so that there are ties
    std::vector<double> high(1 + stream.below(30)), low(1 + stream.below(30));
    for (double& x : high) x = static_cast<double>(stream.below(values));
    for (double& x : low) x = static_cast<double>(stream.below(values));
    double above = 0.0;
    for (const double x : high) {
      for (const double y : low) above += x > y ? 1.0 : x == y ? 0.5 : 0.0;
    }
    EXPECT_DOUBLE_EQ(auroc(high, low), above / static_cast<double>(high.size() * low.size()));
    EXPECT_NEAR(auroc(high, low) + auroc(low, high), 1.0, 1e-12);
  }
}

}  // namespace
}  // namespace parley
