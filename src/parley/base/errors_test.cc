#include <gtest/gtest.h>

#include "parley/base/errors.h"

namespace parley {
namespace {

TEST(Errors, SuggestsTheNearestName) {
  EXPECT_EQ(unknown_name("method", "fala", {"fedavg", "fola"}),
            "unknown method 'fala'; did you mean 'fola'? known: fedavg, fola");
  EXPECT_EQ(unknown_name("method", "zzzzzz", {"fedavg"}), "unknown method 'zzzzzz'; known: fedavg");
}

}  // namespace
}  // namespace parley
