#include "parley/methods/scaffold/scaffold.h"

#include <gtest/gtest.h>

#include "parley/base/errors.h"
#include "parley/engine/test_bed.h"

namespace parley {
namespace {

const TestBed::Quadratics kOneDimension{.h = {{1}, {10}}, .m = {{0}, {1}}};
const TestBed::Quadratics kTwoDimensions{.h = {{2, .5f}, {.1f, 5}}, .m = {{1, 1}, {-1, 3}}, .copies = {2, 3}};

TEST(Scaffold, ReachesTheUniformOptimumDespiteManyLocalSteps) {
  TestBed bed("scaffold", kOneDimension, local(0.05, 10));
  bed.rounds(500);
  EXPECT_NEAR(bed.theta()[0], 10.0 / 11.0, 1e-5);
  // Unequal sizes change nothing: SCAFFOLD averages clients.
  TestBed::Quadratics sized = kOneDimension;
  sized.copies = {5, 1};
  TestBed other("scaffold", sized, local(0.05, 10));
  other.rounds(500);
  EXPECT_NEAR(other.theta()[0], 10.0 / 11.0, 1e-5);
}

TEST(Scaffold, FirstRoundIsFedAvgWithUniformWeights) {
  TestBed scaffold("scaffold", kTwoDimensions, local(0.1, 5)), avg("fedavg", kTwoDimensions, local(0.1, 5), true);
  scaffold.round(1);
  avg.round(1);
  for (int j = 0; j < 2; ++j) EXPECT_NEAR(scaffold.theta()[j], avg.theta()[j], 1e-6);
}

// c is the mean of the c_i of those who have one: an empty client in between changes nothing.
TEST(Scaffold, EmptyClientsDoNotThinTheServersControl) {
  const TestBed::Quadratics three{.h = {{1}, {7}, {10}}, .m = {{0}, {9}, {1}}, .copies = {1, 0, 1}};
  TestBed with_empty("scaffold", three, local(0.05, 10)), without("scaffold", kOneDimension, local(0.05, 10));
  for (std::size_t r = 1; r <= 20; ++r) {
    with_empty.round(r);
    without.round(r);
    EXPECT_NEAR(with_empty.theta()[0], without.theta()[0], 1e-6) << r;
    EXPECT_NEAR(with_empty.state().at("control")[0], without.state().at("control")[0], 1e-6) << r;
  }
}

TEST(Scaffold, RefusesOtherOptimisers) {
  EXPECT_THROW(TestBed("scaffold", kOneDimension, {{"client.optimizer", std::string("adam")}}), InputError);
}

// One of three clients at a time, by hand (option II). The server's c moves by a third of
// what the one client's c_i moved, since the other two kept theirs.
TEST(Scaffold, WhoStaysAwayKeepsItsPartOfTheServersControl) {
  const TestBed::Quadratics three{.h = {{1}, {10}, {2}}, .m = {{0}, {1}, {-3}}};
  const double h[] = {1, 10, 2}, m[] = {0, 1, -3}, lr = 0.05;
  constexpr int kSteps = 2;
  TestBed bed("scaffold", three, local(lr, kSteps));
  double theta = 0.0, control = 0.0, own[] = {0, 0, 0};
  std::size_t round = 0;
  for (const std::size_t n : {1u, 1u, 2u, 1u, 0u, 1u}) {
    double y = theta;
    for (int step = 0; step < kSteps; ++step) y -= lr * (h[n] * (y - m[n]) - own[n] + control);
    const double next = own[n] - control + (theta - y) / (kSteps * lr);
    control += (next - own[n]) / 3.0;
    own[n] = next;
    theta = y;
    bed.round(++round, {n});
    EXPECT_NEAR(bed.theta()[0], theta, 1e-5) << "round " << round;
    EXPECT_NEAR(bed.state().at("control")[0], control, 1e-5) << "round " << round;
  }
}

}  // namespace
}  // namespace parley
