#include "parley/methods/ditto/ditto.h"

#include <gtest/gtest.h>

#include "parley/base/errors.h"
#include "parley/engine/test_bed.h"

namespace parley {
namespace {

const TestBed::Quadratics kOneDimension{.h = {{1}, {4}}, .m = {{0}, {1}}};
const TestBed::Quadratics kUnequal{.h = {{2, .5f}, {.1f, 5}}, .m = {{1, 1}, {-1, 3}}, .copies = {2, 3}};

float own(TestBed& bed, std::size_t client, std::size_t i = 0) {
  return bed.store().load(client)->at("own_theta")[i];
}

TEST(Ditto, WithoutPullIsLocalBesideFedAvg) {
  TestBed ditto("ditto", kUnequal, with(local(0.1, 3), "method.lambda", 0.0)), avg("fedavg", kUnequal, local(0.1, 3)),
      alone("local", kUnequal, local(0.1, 3));
  ditto.rounds(7);
  avg.rounds(7);
  alone.rounds(7);
  EXPECT_TRUE(std::ranges::equal(ditto.theta(), avg.theta()));
  for (std::size_t client = 0; client < 2; ++client) EXPECT_EQ(own(ditto, client, 1), own(alone, client, 1));
}

// argmin h/2(v − m)² + λ/2(v − θ)² = (h·m + λ·θ)/(h + λ) at the shared model's fixed point.
TEST(Ditto, TheOwnModelLiesBetweenTheClientsOptimumAndTheSharedModel) {
  TestBed bed("ditto", kOneDimension, with(local(0.05, 1), "method.lambda", 2.0));
  bed.rounds(600);
  EXPECT_NEAR(bed.theta()[0], 0.8, 1e-4);
  EXPECT_NEAR(own(bed, 0), (1 * 0 + 2 * 0.8) / 3, 1e-4);
  EXPECT_NEAR(own(bed, 1), (4 * 1 + 2 * 0.8) / 6, 1e-4);
}

// What training leaves in the model is what is measured as the client's own.
TEST(Ditto, CountsBothTrainings) {
  TestBed bed("ditto", kOneDimension, local(0.05, 3));
  EXPECT_EQ(bed.train(1, 0).training.steps, 6u);
}

}  // namespace
}  // namespace parley
