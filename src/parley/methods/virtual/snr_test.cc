#include "parley/methods/virtual/snr.h"

#include <gtest/gtest.h>

#include <numbers>

#include "parley/tensor/flat.h"

namespace parley {
namespace {

const Layout kLayout({{.name = "fc1.weight", .shape = {2, 4}},
                      {.name = "fc1.bias", .shape = {2}, .role = Role::bias},
                      {.name = "fc2.weight", .shape = {1, 2}},
                      {.name = "fc2.bias", .shape = {1}, .role = Role::bias},
                      {.name = "norm.count", .shape = {1}, .role = Role::counter}});

TEST(Prune, KeepsWhatStandsOutOfItsNoiseAndTheOutputLayer) {
  // |χ|/√|ξ| = 1 … 8 in fc1.weight, whatever the sign of ξ.
  Flat precision{1, -1, 4, 4, 1, 1, 1, 1, 1, 4, 1, 1, 1}, shift{1, 2, -6, 8, 5, 6, 7, 8, 3, 2, .1f, .1f, .1f};
  const auto segments = prune_by_snr(kLayout, 0.5, precision, {precision, shift});
  EXPECT_EQ(shift, (Flat{0, 0, 0, 0, 5, 6, 7, 8, 3, 0, .1f, .1f, .1f}));
  EXPECT_EQ(precision, (Flat{0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1}));
  ASSERT_EQ(segments.size(), 4u);
  EXPECT_EQ(segments[0].size, 8u);
}

TEST(Prune, FewSurvivorsAreSentByIndex) {
  const Layout layout({{.name = "a.weight", .shape = {1000}}, {.name = "b.weight", .shape = {1}}});
  Flat precision(1001, 1.0f), shift(1001);
  for (std::size_t i = 0; i < shift.size(); ++i) shift[i] = static_cast<float>(i);
  const auto segments = prune_by_snr(layout, 0.99, precision, {precision, shift});
  // How many tensors; for each its size, how places are marked, what the rest is, how many are kept; then those.
  const std::size_t few = 8 + 1 + 4 + 4 + 10 * (sizeof(std::uint32_t) + sizeof(float)), whole = 8 + 1 + sizeof(float);
  EXPECT_EQ(pack_sparse(shift, segments).bytes.size(), 4 + few + whole);
}

TEST(Prune, OfNothingIsTheIdentity) {
  Flat precision(13, 1.0f), shift(13, 0.5f);
  const Flat before = shift;
  EXPECT_TRUE(prune_by_snr(kLayout, 0.0, precision, {precision, shift}).empty());
  EXPECT_EQ(shift, before);
}

// A mean that moved without its precision is a signal without noise; what did not move at all is none.
TEST(Prune, OrdersWhereAPrecisionStoodStill) {
  const Layout layout({{.name = "a.weight", .shape = {4}}, {.name = "b.weight", .shape = {1}}});
  Flat precision{0, 0, 1, 1, 1}, shift{1, 0, 5, 2, 1};
  prune_by_snr(layout, 0.5, precision, {precision, shift});
  EXPECT_EQ(shift, (Flat{1, 0, 5, 0, 1}));
}

TEST(Prune, MayMeasureByTheNoiseOfThePosterior) {
  const Layout layout({{.name = "a.weight", .shape = {2}}, {.name = "b.weight", .shape = {1}}});
  const Flat noise{100, 1, 1};
  Flat precision{0, 0, 0}, shift{5, 2, 1};
  prune_by_snr(layout, 0.5, noise, {precision, shift});
  EXPECT_EQ(shift, (Flat{0, 2, 1}));
}

TEST(Snr, IsCountedByTensorOnALogarithmicScale) {
  const Layout layout({{.name = "a.weight", .shape = {3}}, {.name = "b.weight", .shape = {2}}});
  const std::vector<float> mean{1.0f, -1.0f, 0.0f, 1e9f, 0.5f};
  const std::vector<float> rho{0.0f, -1.2f * std::numbers::ln10_v<float>, 0.0f, 0.0f, 0.0f};
  Flat counts(snr_layout(layout).size());
  count_snr(layout, mean, rho, counts);
  EXPECT_EQ(snr_layout(layout).entries()[1].name, "b.weight");
  EXPECT_EQ(counts[32], 1.0f);                // 10⁰
  EXPECT_EQ(counts[41], 1.0f);                // 10^1.2
  EXPECT_EQ(counts[0], 1.0f);                 // no signal at all
  EXPECT_EQ(counts[2 * kSnrBins - 1], 1.0f);  // beyond the scale
  EXPECT_EQ(counts[kSnrBins + 29], 1.0f);     // 10^−0.3
}

}  // namespace
}  // namespace parley
