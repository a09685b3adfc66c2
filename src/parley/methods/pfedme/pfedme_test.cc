#include "parley/methods/pfedme/pfedme.h"

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

TEST(PFedMe, FollowingAllTheWayAfterEachStepIsFedAvg) {
  TestBed tied("pfedme", kUnequal,
               {{"client.lr", 0.1},
                {"client.epochs", std::int64_t{1}},
                {"method.pull", 1.0},
                {"method.steps", std::int64_t{1}}});
  TestBed avg("fedavg", kUnequal, local(0.1, 1));
  tied.round(1);
  avg.round(1);
  for (int j = 0; j < 2; ++j) EXPECT_NEAR(tied.theta()[j], avg.theta()[j], 1e-6);
}

// The envelope of h/2(v − m)² is hλ/(h + λ)/2·(w − m)²: the shared model minimises the sum of these, and each v is the
// proximal point. With λ = 2: curvatures 2/3 and 4/3, so w = (4/3)/(2/3 + 4/3).
TEST(PFedMe, MinimisesTheMoreauEnvelopes) {
  TestBed bed("pfedme", kOneDimension,
              {{"client.lr", 0.1},
               {"client.epochs", std::int64_t{50}},
               {"method.lambda", 2.0},
               {"method.pull", 0.1},
               {"method.steps", std::int64_t{50}}});
  bed.rounds(300);
  EXPECT_NEAR(bed.theta()[0], 2.0 / 3.0, 1e-4);
  EXPECT_NEAR(own(bed, 0), (1 * 0 + 2 * 2.0 / 3) / 3, 1e-4);
  EXPECT_NEAR(own(bed, 1), (4 * 1 + 2 * 2.0 / 3) / 6, 1e-4);
}

TEST(PFedMe, AnUnfinishedBundleOfStepsCountsToo) {
  TestBed bed("pfedme", kOneDimension, local(0.05, 3));
  bed.round(1);
  EXPECT_GT(bed.theta()[0], 0.0f);
}

// Two bundles of two steps by hand: v ← v − η(h(v − m) + λ(v − w)), and after each bundle w ← w − pull·(w − v).
TEST(PFedMe, TheCopyFollowsAfterEachBundleOfSteps) {
  auto settings = local(0.1, 4);
  settings["method.lambda"] = 3.0;
  settings["method.pull"] = 0.25;
  settings["method.steps"] = std::int64_t{2};
  TestBed bed("pfedme", kOneDimension, settings);
  bed.theta()[0] = 2.0f;
  bed.round(1);
  const double h[] = {1, 4}, m[] = {0, 1};
  double mean = 0.0;
  for (std::size_t k = 0; k < 2; ++k) {
    double v = 2.0, w = 2.0;
    for (int step = 1; step <= 4; ++step) {
      v -= 0.1 * (h[k] * (v - m[k]) + 3.0 * (v - w));
      if (step % 2 == 0) w -= 0.25 * (w - v);
    }
    mean += 0.5 * w;
    EXPECT_NEAR(own(bed, k), v, 1e-6);
  }
  EXPECT_NEAR(bed.theta()[0], mean, 1e-6);
}

}  // namespace
}  // namespace parley
