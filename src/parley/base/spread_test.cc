#include "parley/base/spread.h"

#include <gtest/gtest.h>

namespace parley {
namespace {

TEST(Spread, IsTheSampleStandardDeviation) {
  const Spread four = spread({1.0, 2.0, 3.0, 4.0});
  EXPECT_DOUBLE_EQ(four.mean, 2.5);
  EXPECT_NEAR(four.deviation, 1.2909944487, 1e-9);
  EXPECT_EQ(spread({5.0}).deviation, 0.0);
}

}  // namespace
}  // namespace parley
