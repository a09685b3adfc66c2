#include "parley/methods/laplace/secants.h"

#include <gtest/gtest.h>

#include <numeric>

#include "parley/base/random.h"

namespace parley {
namespace {

constexpr std::size_t kSize = 6;

std::shared_ptr<const Layout> layout() {
  return std::make_shared<const Layout>(std::vector<LayoutEntry>{{.name = "w", .shape = {kSize}}});
}

struct Bed {
  Stream stream{9, "secants"};
  Secants secants;
  State state;

  explicit Bed(std::size_t most) : secants(layout(), most) { secants.start(state); }

  std::vector<double> normals() {
    std::vector<double> x(kSize);
    for (double& value : x) value = stream.normal();
    return x;
  }
  std::vector<double> preconditioned(std::vector<double> x) const {
    secants.precondition(
        state,
        [](std::span<const std::span<double>> all) {
          for (const auto v : all) {
            for (std::size_t i = 0; i < kSize; ++i) v[i] /= static_cast<double>(1 + i);
          }
        },
        x);
    return x;
  }
};

// What the first matrix above is the inverse of.
std::vector<double> curved(std::vector<double> s) {
  for (std::size_t i = 0; i < kSize; ++i) s[i] *= static_cast<double>(1 + i);
  return s;
}
// A Hessian with one direction that is a hundred times stiffer than the factors know.
std::vector<double> hessian_times(const std::vector<double>& s) {
  std::vector<double> y = curved(s);
  const double along = 100.0 * std::accumulate(s.begin(), s.end(), 0.0) / kSize;
  for (double& value : y) value += along;
  return y;
}

TEST(Secants, NoneLeaveTheFirstMatrixAlone) {
  Bed bed(3);
  const auto x = bed.normals(), found = bed.preconditioned(x);
  for (std::size_t i = 0; i < kSize; ++i) EXPECT_DOUBLE_EQ(found[i], x[i] / static_cast<double>(1 + i));
}

// H⁻¹y = s for the newest pair, also when older ones have gone.
TEST(Secants, TheNewestPairIsReproduced) {
  Bed bed(2);
  for (int n = 0; n < 5; ++n) {
    const auto s = bed.normals(), y = hessian_times(s);
    bed.secants.add(bed.state, s, y, curved(s));
    const auto found = bed.preconditioned(y);
    // The state keeps floats; y is up to a hundred times as large as s.
    for (std::size_t i = 0; i < kSize; ++i) EXPECT_NEAR(found[i], s[i], 1e-4);
  }
}

TEST(Secants, TheInverseStaysSymmetricAndPositive) {
  Bed bed(3);
  for (int n = 0; n < 4; ++n) {
    const auto s = bed.normals();
    bed.secants.add(bed.state, s, hessian_times(s), curved(s));
    const auto a = bed.normals(), b = bed.normals();
    EXPECT_NEAR(dot(a, bed.preconditioned(b)), dot(b, bed.preconditioned(a)), 1e-9);
    EXPECT_GT(dot(a, bed.preconditioned(a)), 0.0);
  }
}

// A saddle: going on along s would be for ever downhill, but no step may be that long.
TEST(Secants, NegativeCurvatureIsMixedWithTheFactors) {
  Bed bed(3);
  const auto s = bed.normals();
  auto y = curved(s);
  for (double& value : y) value = -value;
  bed.secants.add(bed.state, s, y, curved(s));
  const auto change = bed.state.at("secant_change_0");
  const std::vector<double> kept(change.begin(), change.end());
  EXPECT_NEAR(dot(s, kept), 0.2 * dot(s, curved(s)), 1e-5);
  const auto g = bed.normals();
  EXPECT_GT(dot(g, bed.preconditioned(g)), 0.0);
}

// Twice as steep along one axis as the factors say: until more is known, so is everything else (Eq. 7.20).
TEST(Secants, TheNewestPairScalesTheFactorsEverywhere) {
  Bed bed(3);
  std::vector<double> s(kSize, 0.0), g(kSize, 0.0);
  s[0] = 1.0;
  g[1] = 3.0;
  auto y = curved(s);
  for (double& value : y) value *= 2.0;
  bed.secants.add(bed.state, s, y, curved(s));
  EXPECT_DOUBLE_EQ(bed.preconditioned(g)[1], 0.5 * 3.0 / 2.0);
}

TEST(Secants, AStepThatWentNowhereSaysNothing) {
  Bed bed(3);
  const std::vector<double> nowhere(kSize, 0.0);
  bed.secants.add(bed.state, nowhere, nowhere, nowhere);
  const auto x = bed.normals(), found = bed.preconditioned(x);
  for (std::size_t i = 0; i < kSize; ++i) EXPECT_DOUBLE_EQ(found[i], x[i] / static_cast<double>(1 + i));
}

}  // namespace
}  // namespace parley
