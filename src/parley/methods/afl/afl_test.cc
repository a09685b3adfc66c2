#include "parley/methods/afl/afl.h"

#include <gtest/gtest.h>

#include "parley/base/errors.h"
#include "parley/engine/test_bed.h"

namespace parley {
namespace {

const TestBed::Quadratics kOneDimension{.h = {{1}, {4}}, .m = {{0}, {1}}};

// ½θ² = 2(θ − 1)² at θ = 2/3, where neither can gain without the other's loss; the mean's optimum is 0.8.
TEST(Afl, TwoQuadraticsMeetInTheMinimaxPoint) {
  TestBed bed("afl", kOneDimension, with(local(0.05, 1), "method.lambda_lr", 0.02));
  bed.rounds(4000);
  EXPECT_NEAR(bed.theta()[0], 2.0 / 3.0, 1e-3);
  // At the saddle point λ∇F cancels: λ·θ = 4(1 − λ)(1 − θ), so λ = 2/3.
  EXPECT_NEAR(bed.state().at("lambda")[0], 2.0 / 3.0, 1e-2);
}

// Where one client is worse off at the other's optimum whatever is done, it gets all of the weight.
TEST(Afl, AHopelessClientTakesAllOfTheWeight) {
  const TestBed::Quadratics noisy{.h = {{1}, {1}}, .m = {{0}, {1}}, .copies = {2, 2}, .spread = {{0}, {10}}};
  TestBed bed("afl", noisy, local(0.05, 1));
  bed.rounds(500);
  EXPECT_NEAR(bed.theta()[0], 1.0, 1e-3);
  EXPECT_EQ(bed.state().at("lambda")[0], 0.0f);
}

TEST(Afl, ProjectsOnTheSimplex) {
  const auto projected = [](std::vector<float> x) {
    project_on_simplex(x);
    return x;
  };
  EXPECT_EQ(projected({0.25f, 0.75f}), (std::vector<float>{0.25f, 0.75f}));
  EXPECT_EQ(projected({2.0f, 0.0f}), (std::vector<float>{1.0f, 0.0f}));
  EXPECT_EQ(projected({1.0f, 1.0f, -5.0f}), (std::vector<float>{0.5f, 0.5f, 0.0f}));
  EXPECT_EQ(projected({-3.0f}), (std::vector<float>{1.0f}));
}

// Of four clients two take part: the step is the mean of theirs by λ, as if theirs were all of it; λ rises by their
// losses, and the simplex takes the surplus from all.
TEST(Afl, APartOfTheClientsCountsAsAllOfThem) {
  const TestBed::Quadratics four{.h = {{1}, {4}, {2}, {1}}, .m = {{0}, {1}, {5}, {5}}};
  TestBed bed("afl", four, with(local(0.1, 1), "method.lambda_lr", 0.02));
  bed.theta()[0] = 2.0f;
  std::ranges::copy(std::vector<float>{.1f, .3f, .4f, .2f}, bed.state().at("lambda").begin());
  bed.round(1, {0, 1});
  EXPECT_NEAR(bed.theta()[0], 2.0 - 0.1 * (0.1 * 1 * 2 + 0.3 * 4 * 1) / 0.4, 1e-6);
  // Losses 2 and 2: each of the two gains 0.04, and all four give back 0.02.
  const double expected[] = {.12, .32, .38, .18};
  for (std::size_t k = 0; k < 4; ++k) EXPECT_NEAR(bed.state().at("lambda")[k], expected[k], 1e-6);
}

}  // namespace
}  // namespace parley
