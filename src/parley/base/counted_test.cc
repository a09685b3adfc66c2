#include "parley/base/counted.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace parley {
namespace {

TEST(Counted, OnlyOneIsSingular) {
  EXPECT_EQ(counted(0, "row"), "0 rows");
  EXPECT_EQ(counted(1, "client"), "1 client");
  EXPECT_EQ(counted(2u, "client"), "2 clients");
  EXPECT_EQ(counted(std::int64_t{-1}, "round"), "-1 rounds");
  EXPECT_EQ(counted(UINT64_MAX, "byte"), "18446744073709551615 bytes");
}

TEST(Counted, TakesAnIrregularPlural) {
  EXPECT_EQ(counted(1, "entry", "entries"), "1 entry");
  EXPECT_EQ(counted(std::size_t{0}, "entry", "entries"), "0 entries");
}

}  // namespace
}  // namespace parley
