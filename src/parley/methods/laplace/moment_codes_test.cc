// Second moments in a byte a number: what is read is what was put, near what was measured, and the step hardly moves.
#include "parley/methods/laplace/moment_codes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "parley/base/errors.h"
#include "parley/base/random.h"
#include "parley/gauss/matrix_product.h"
#include "parley/gauss/natural_step.h"

namespace parley {
namespace {

// Of inputs whose sizes differ by four orders of magnitude; the third is always zero.
std::vector<float> moments(std::uint64_t seed, std::size_t width, std::size_t rows) {
  Stream stream(seed, "moments");
  std::vector<double> sums(packed_size(width), 0.0);
  for (std::size_t row = 0; row < rows; ++row) {
    std::vector<double> x;
    const double common = stream.normal();
    for (std::size_t i = 0; i < width; ++i) {
      const double size = i == 2 ? 0.0 : std::pow(10.0, static_cast<double>(i % 5) - 2.0);
      x.push_back(size * (common + stream.normal()));
    }
    for (std::size_t i = 0, at = 0; i < width; ++i) {
      for (std::size_t j = 0; j <= i; ++j) sums[at++] += x[i] * x[j] / static_cast<double>(rows);
    }
  }
  return {sums.begin(), sums.end()};
}

TEST(MomentCodes, AreReadAsTheyWerePutWithinHalfAStepOfTheirDeviations) {
  constexpr std::size_t kWidth = 12;
  for (const std::size_t bits : {8, 16}) {
    const double step = 1.0 / (bits == 8 ? 127.0 : 32767.0);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE(seed);
      const auto exact = moments(seed, kWidth, 30);
      std::vector<float> put = exact, read(exact.size(), 7.0f);
      ByteBuffer to;
      put_moments(to, bits, kWidth, put);
      EXPECT_EQ(to.bytes.size(), 1 + kWidth * sizeof(float) + (packed_size(kWidth) - kWidth) * bits / 8);
      ByteReader from(to.bytes);
      take_moments(from, kWidth, read);
      from.finish();
      EXPECT_EQ(put, read);
      for (std::size_t i = 0, at = 0; i < kWidth; ++i) {
        for (std::size_t j = 0; j <= i; ++j, ++at) {
          const double scale = std::sqrt(double{exact[packed_size(i + 1) - 1]} * double{exact[packed_size(j + 1) - 1]});
          // Half a step, and a few roundings of floats.
          EXPECT_NEAR(read[at], exact[at], scale * ((i == j ? 0.0 : 0.5 * step) + 1e-6));
        }
      }
    }
  }
}

// The damped step of 8-bit factors beside that of floats: both factors are off by at most half a step of 1/127 a
// number, in all by ‖E‖ ≤ width/254 of their largest variance, against a damping of a tenth of the mean one.
TEST(MomentCodes, HardlyMoveADampedStep) {
  constexpr std::size_t kRows = 6, kWidth = 8;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    auto inputs = moments(seed, kWidth, 40), outputs = moments(seed + 100, kRows, 40);
    Stream stream(seed, "gradient");
    std::vector<double> exact;
    for (std::size_t i = 0; i < kRows * kWidth; ++i) exact.push_back(stream.normal());
    std::vector<double> coded = exact;
    const auto step = [&](std::span<double> gradient) {
      const std::span<double> alone[] = {gradient};
      const FisherFactors factors{.rows = kRows, .width = kWidth, .inputs = inputs, .outputs = outputs};
      EXPECT_TRUE(precondition(factors, 1.0, alone));
    };
    step(exact);
    ByteBuffer to;
    put_moments(to, 8, kWidth, inputs);
    put_moments(to, 8, kRows, outputs);
    step(coded);
    double difference = 0.0, length = 0.0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      difference += std::pow(exact[i] - coded[i], 2);
      length += std::pow(exact[i], 2);
    }
    EXPECT_LT(std::sqrt(difference / length), 0.05);
    EXPECT_GT(difference, 0.0);
  }
}

TEST(MomentCodes, MissingBytesAndOtherBitsAreRefused) {
  auto exact = moments(1, 4, 10);
  ByteBuffer to;
  put_moments(to, 8, 4, exact);
  to.bytes.pop_back();
  ByteReader from(to.bytes);
  EXPECT_THROW(take_moments(from, 4, exact), InputError);
  to.bytes[0] = std::byte{32};
  ByteReader other(to.bytes);
  EXPECT_THROW(take_moments(other, 4, exact), InputError);
}

}  // namespace
}  // namespace parley
