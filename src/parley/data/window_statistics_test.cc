#include "parley/data/window_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "parley/base/random.h"

namespace parley {
namespace {

using Window = std::vector<float>;

// Each axis by a function of the sample.
template <class Value>
Window window_of(Value value) {
  Window window;
  for (std::size_t axis = 0; axis < kMovementAxes; ++axis) {
    for (std::size_t t = 0; t < kMovementSamples; ++t) window.push_back(static_cast<float>(value(axis, t)));
  }
  return window;
}

double oscillation(double times, std::size_t t) {
  return std::sin(2 * std::numbers::pi * times * static_cast<double>(t) / 128.0);
}

struct Parts {
  std::span<const float> time, frequency;
};
Parts parts(const std::vector<float>& statistics, std::size_t signal) {
  const auto of_signal = std::span(statistics).subspan(signal * (kTimeStatistics + kFrequencyStatistics));
  return {of_signal.first(kTimeStatistics), of_signal.subspan(kTimeStatistics, kFrequencyStatistics)};
}

TEST(WindowStatistics, OfAnOscillationAreWhatTheyMustBe) {
  const auto statistics = window_statistics(
      window_of([](std::size_t axis, std::size_t t) { return axis == 1 ? 3.0 + 2.0 * oscillation(20, t) : 0.0; }));
  ASSERT_EQ(statistics.size(), kWindowStatistics);
  const auto [time, frequency] = parts(statistics, 1);
  EXPECT_NEAR(time[0], 3.0, 1e-5);                // mean
  EXPECT_NEAR(time[1], std::sqrt(2.0), 1e-5);     // deviation: amplitude / √2
  EXPECT_NEAR(time[2], std::sqrt(2.0), 0.05);     // half of the samples are within amplitude / √2
  EXPECT_NEAR(time[3], 1.0, 0.05);                // least
  EXPECT_NEAR(time[4], 5.0, 0.05);                // greatest
  EXPECT_NEAR(time[5], 11.0, 1e-4);               // 9 + 2
  EXPECT_NEAR(time[6], 2 * std::sqrt(2.0), 0.2);  // quartiles at ± amplitude / √2
  EXPECT_NEAR(time[8], std::cos(2 * std::numbers::pi * 20 / 128), 0.02);  // one sample later
  // All power, 2²/4 at one of the two frequencies ±20, is in the third band of eight.
  EXPECT_NEAR(frequency[2], 0.0, 1e-4);
  for (const std::size_t band : {0, 1, 3, 4, 5, 6, 7}) EXPECT_LT(frequency[band], -20.0) << band;
  EXPECT_NEAR(frequency[8], 20.0, 1e-3);                  // mean frequency
  EXPECT_EQ(frequency[9], 20.0);                          // strongest
  EXPECT_NEAR(frequency[10], 0.0, 1e-3);                  // one frequency: no entropy
  EXPECT_NEAR(parts(statistics, 7).time[0], 0.0, 0.05);   // the jerk of axis 1
  EXPECT_NEAR(parts(statistics, 12).time[0], 3.0, 1e-5);  // the accelerometer's magnitude: the other axes are 0
  EXPECT_EQ(parts(statistics, 13).time[0], 0.0);          // the gyroscope's
}

TEST(WindowStatistics, CorrelateTheAxesOfASensor) {
  const auto statistics = window_statistics(window_of([](std::size_t axis, std::size_t t) {
    constexpr double kGain[] = {1, 5, -2, 1, 0, 1};
    return kGain[axis] * oscillation(axis == 5 ? 7 : 3, t);
  }));
  const auto correlations = std::span(statistics).last(12);
  EXPECT_NEAR(correlations[0], 1.0, 1e-5);   // accelerometer x with y
  EXPECT_NEAR(correlations[1], -1.0, 1e-5);  // x with z
  EXPECT_NEAR(correlations[2], -1.0, 1e-5);
  EXPECT_EQ(correlations[3], 0.0);          // the gyroscope's y stands still
  EXPECT_NEAR(correlations[4], 0.0, 1e-5);  // different frequencies
  EXPECT_NEAR(correlations[6], 1.0, 1e-2);  // the accelerometer's jerk
}

TEST(WindowStatistics, OfAMotionlessTelephoneAreFinite) {
  for (const double level : {0.0, 9.81, -3e4}) {
    const auto statistics = window_statistics(window_of([&](std::size_t, std::size_t) { return level; }));
    for (std::size_t i = 0; i < statistics.size(); ++i) ASSERT_TRUE(std::isfinite(statistics[i])) << i;
    EXPECT_EQ(parts(statistics, 0).frequency[9], 0.0);
  }
}

TEST(WindowStatistics, NoiseHasMoreEntropyThanAnOscillation) {
  Stream noise(1, "test");
  const auto statistics = window_statistics(
      window_of([&](std::size_t axis, std::size_t t) { return axis == 0 ? oscillation(5, t) : noise.normal(); }));
  EXPECT_LT(parts(statistics, 0).frequency[10], 0.1);
  EXPECT_GT(parts(statistics, 1).frequency[10], 3.0);  // at most ln 64 = 4.16
}

}  // namespace
}  // namespace parley
