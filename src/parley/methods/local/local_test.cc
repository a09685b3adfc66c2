#include "parley/methods/local/local.h"

#include <gtest/gtest.h>

#include "parley/base/errors.h"
#include "parley/engine/test_bed.h"

namespace parley {
namespace {

const TestBed::Quadratics kUnequal{.h = {{2, .5f}, {.1f, 5}}, .m = {{1, 1}, {-1, 3}}, .copies = {2, 3}};

float own(TestBed& bed, std::size_t client, std::size_t i = 0) {
  return bed.store().load(client)->at("own_theta")[i];
}

TEST(Local, EverybodyEndsAtHisOwnOptimum) {
  TestBed bed("local", kUnequal, local(0.1, 5));
  bed.rounds(200);
  EXPECT_NEAR(own(bed, 0, 0), 1.0f, 1e-4);
  EXPECT_NEAR(own(bed, 1, 1), 3.0f, 1e-4);
  EXPECT_NEAR(bed.theta()[1], 0.4 * 1 + 0.6 * 3, 1e-3);  // the average that is evaluated
}

TEST(Local, AClientThatComesLateStartsWhereTheOthersDid) {
  TestBed late("local", kUnequal, local(0.1, 1)), early("local", kUnequal, local(0.1, 1));
  for (std::size_t round = 1; round <= 5; ++round) {
    Sum sum(late.schema());
    sum.add(late.train(round, 0));
    late.serve(round, sum);
  }
  EXPECT_EQ(late.train(6, 1).channels()[0], early.train(1, 1).channels()[0]);
}

}  // namespace
}  // namespace parley
