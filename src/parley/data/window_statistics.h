// What a stretch of movement looks like, in numbers: statistics of a window of accelerometer and gyroscope, in time and
// in frequency.
//
// They are taken of 16 signals: the six axes; their changes from sample to sample (jerk); and the magnitudes of the
// accelerometer, the gyroscope and the two jerks. Of each signal, 12 in time: mean, standard deviation, median absolute
// deviation from the median, least, greatest, mean square, interquartile range, entropy of its histogram, correlation
// with itself 1 to 4 samples later; and 11 of its power spectrum without the mean: logarithms of the power in 8 equal
// bands, mean frequency, strongest frequency, entropy. At last the correlations between the axes of each sensor and of
// each jerk. None of these needs another window, so nothing of a test row enters a training row.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace parley {

inline constexpr std::size_t kMovementAxes = 6, kMovementSamples = 128;
inline constexpr std::size_t kTimeStatistics = 12, kFrequencyStatistics = 11;
inline constexpr std::size_t kWindowStatistics = 16 * (kTimeStatistics + kFrequencyStatistics) + 12;

// The statistics of a window, which is given axis by axis: accelerometer x, y, z, gyroscope x, y, z. Signal s has the
// numbers [23·s, 23·(s + 1)), in the order above. All are finite when the window is.
std::vector<float> window_statistics(std::span<const float> window);

}  // namespace parley
