#include "parley/methods/fedsgd/fedsgd.h"

#include <gtest/gtest.h>

#include "parley/base/errors.h"
#include "parley/engine/test_bed.h"

namespace parley {
namespace {

const TestBed::Quadratics kOneDimension{.h = {{1}, {10}}, .m = {{0}, {1}}};
const TestBed::Quadratics kTwoDimensions{.h = {{2, .5f}, {.1f, 5}}, .m = {{1, 1}, {-1, 3}}, .copies = {2, 3}};

TEST(FedSgd, EqualsFedAvgWithOneFullBatchStep) {
  TestBed sgd("fedsgd", kTwoDimensions, local(0.1, 7)), avg("fedavg", kTwoDimensions, local(0.1, 1));
  sgd.rounds(10);
  avg.rounds(10);
  for (int j = 0; j < 2; ++j) EXPECT_NEAR(sgd.theta()[j], avg.theta()[j], 1e-6);
}

TEST(FedSgd, RefusesWhatOnlyLocalStepsCanHonour) {
  EXPECT_THROW(TestBed("fedsgd", kOneDimension, {{"client.optimizer", std::string("adam")}}), InputError);
  EXPECT_THROW(TestBed("fedsgd", kOneDimension, {{"client.clip_norm", 1.0}}), InputError);
}

TEST(FedSgd, DecaysTheWeightsOnTheServer) {
  TestBed bed("fedsgd", kOneDimension, with(local(0.1, 1), "client.weight_decay", 0.5));
  bed.theta()[0] = 2.0f;
  bed.round(1);
  EXPECT_NEAR(bed.theta()[0], 2.0 - 0.1 * (0.5 * (1 * 2.0 + 10 * 1.0) + 0.5 * 2.0), 1e-6);
}

}  // namespace
}  // namespace parley
