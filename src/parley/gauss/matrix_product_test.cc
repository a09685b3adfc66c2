#include "parley/gauss/matrix_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "parley/base/random.h"
#include "parley/gauss/kronecker.h"
#include "parley/gauss/low_rank.h"
#include "parley/gauss/normal.h"

namespace parley {
namespace {

using Doubles = std::vector<double>;

// Σ x xᵀ over rows, full and packed.
std::vector<float> gram(const std::vector<std::vector<float>>& rows) {
  const std::size_t d = rows[0].size();
  std::vector<float> full(d * d, 0.0f);
  for (const auto& x : rows) {
    for (std::size_t i = 0; i < d; ++i) {
      for (std::size_t j = 0; j < d; ++j) full[i * d + j] += x[i] * x[j];
    }
  }
  return full;
}

std::vector<std::vector<float>> random_rows(Stream& stream, std::size_t n, std::size_t d) {
  std::vector<std::vector<float>> rows(n, std::vector<float>(d));
  for (auto& row : rows) {
    for (auto& x : row) x = static_cast<float>(stream.normal());
  }
  return rows;
}

std::vector<float> packed(const std::vector<float>& full, std::size_t d, float ridge = 0.0f) {
  std::vector<float> result(packed_size(d));
  pack_symmetric(full, d, 1.0f, ridge, result);
  return result;
}

// Least squares W of y = W x by the normal equations: W = (Σ y xᵀ)(Σ x xᵀ)⁻¹.
Doubles least_squares(const std::vector<std::vector<float>>& x, const std::vector<std::vector<float>>& y) {
  const std::size_t d = x[0].size(), out = y[0].size();
  Doubles cross(out * d, 0.0);
  for (std::size_t r = 0; r < x.size(); ++r) {
    for (std::size_t i = 0; i < out; ++i) {
      for (std::size_t j = 0; j < d; ++j) cross[i * d + j] += double{y[r][i]} * x[r][j];
    }
  }
  const auto a = packed(gram(x), d);
  EXPECT_TRUE(solve_mean(Doubles(a.begin(), a.end()), d, out, cross));
  return cross;
}

// For linear regression clients the product is the pooled least-squares solution exactly.
TEST(MatrixProduct, LinearRegressionClientsGiveThePooledSolution) {
  Stream stream(1, "regression");
  constexpr std::size_t d = 5, out = 3;
  std::vector<std::vector<float>> all_x, all_y;
  Doubles sum_gram(packed_size(d), 0.0), sum_moments(out * d, 0.0);
  for (const std::size_t n : {8, 20, 11}) {
    const auto x = random_rows(stream, n, d), y = random_rows(stream, n, out);
    const Doubles own = least_squares(x, y);
    const auto a = packed(gram(x), d);
    std::vector<float> moments(own.begin(), own.end());
    times_precision(moments, out, d, a);
    for (std::size_t i = 0; i < a.size(); ++i) sum_gram[i] += a[i];
    for (std::size_t i = 0; i < moments.size(); ++i) sum_moments[i] += moments[i];
    all_x.insert(all_x.end(), x.begin(), x.end());
    all_y.insert(all_y.end(), y.begin(), y.end());
  }
  ASSERT_TRUE(solve_mean(sum_gram, d, out, sum_moments));
  const Doubles pooled = least_squares(all_x, all_y);
  for (std::size_t i = 0; i < pooled.size(); ++i) EXPECT_NEAR(sum_moments[i], pooled[i], 1e-5);
}

TEST(MatrixProduct, OneClientIsTheIdentity) {
  Stream stream(2, "identity");
  constexpr std::size_t d = 6, out = 4;
  const auto weights = random_rows(stream, 1, out * d)[0];
  const auto a = packed(gram(random_rows(stream, 3, d)), d, 1e-3f);  // fewer rows than width: the ridge carries it
  std::vector<float> moments = weights;
  times_precision(moments, out, d, a);
  Doubles solved(moments.begin(), moments.end());
  ASSERT_TRUE(solve_mean(Doubles(a.begin(), a.end()), d, out, solved));
  for (std::size_t i = 0; i < solved.size(); ++i) EXPECT_NEAR(solved[i], weights[i], 1e-3);
}

TEST(MatrixProduct, WhatIsNotPositiveIsRefusedAndUnchanged) {
  const Doubles indefinite{1.0, 2.0, 1.0};
  Doubles moments{1.0, 2.0};
  EXPECT_FALSE(solve_mean(indefinite, 2, 1, moments));
  EXPECT_EQ(moments, (Doubles{1.0, 2.0}));
}

TEST(ProximalStep, IsTheImplicitStepForAnyStrength) {
  const std::vector<float> a{2.0f, 0.5f, 1.0f};  // [[2, .5], [.5, 1]]
  const LowRank factors = low_rank(a, 2, 2);
  for (const float strength : {0.1f, 1.0f, 100.0f}) {
    std::vector<float> difference{1.0f, -3.0f};
    ProximalStep(factors.vectors, factors.values, factors.rest, strength).apply(difference, 1);
    // D(I + sA) must give back what it was.
    EXPECT_NEAR(difference[0] * (1 + strength * 2.0f) + difference[1] * strength * 0.5f, 1.0f, 1e-4);
    EXPECT_NEAR(difference[0] * strength * 0.5f + difference[1] * (1 + strength * 1.0f), -3.0f, 1e-4);
  }
}

TEST(ProximalStep, PullsAlongTheRestWithItsMean) {
  const std::vector<float> a{4.0f, 0.0f, 1.0f, 0.0f, 0.0f, 3.0f};  // diag(4, 1, 3): keeps 4, the rest is 2 on average
  const LowRank factors = low_rank(a, 3, 1);
  EXPECT_NEAR(factors.rest, 2.0f, 1e-5);
  std::vector<float> difference{1.0f, 1.0f, 1.0f};
  ProximalStep(factors.vectors, factors.values, factors.rest, 0.5f).apply(difference, 1);
  EXPECT_NEAR(difference[0], 1.0f / 3.0f, 1e-5);
  EXPECT_NEAR(difference[1], 0.5f, 1e-5);
  EXPECT_NEAR(difference[2], 0.5f, 1e-5);
}

TEST(ColourByPrecision, DrawsHaveTheInverseAsTheirCovariance) {
  const std::vector<float> a{2.0f, 0.5f, 1.0f};
  constexpr std::size_t rows = 200000;
  std::vector<float> noise(2 * rows);
  Stream stream(8, "colour");
  gauss::fill_normal(stream, noise);
  colour_by_precision(a, 2, 3.0, 1.0, rows, noise);
  double xx = 0.0, xy = 0.0, yy = 0.0;
  for (std::size_t r = 0; r < rows; ++r) {
    xx += double{noise[2 * r]} * noise[2 * r] / rows;
    xy += double{noise[2 * r]} * noise[2 * r + 1] / rows;
    yy += double{noise[2 * r + 1]} * noise[2 * r + 1] / rows;
  }
  const double determinant = 7.0 * 4.0 - 1.5 * 1.5;  // of 3A + I = [[7, 1.5], [1.5, 4]]
  EXPECT_NEAR(xx, 4.0 / determinant, 2e-3);
  EXPECT_NEAR(xy, -1.5 / determinant, 2e-3);
  EXPECT_NEAR(yy, 7.0 / determinant, 3e-3);
}

TEST(LowRank, FullRankIsTheMatrixItself) {
  Stream stream(4, "full rank");
  constexpr std::size_t d = 7;
  const auto a = packed(gram(random_rows(stream, 9, d)), d);
  std::vector<float> back(a.size());
  expand(low_rank(a, d, d), d, back);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(back[i], a[i], 1e-4);
}

TEST(LowRank, FindsAMatrixOfThatRankAndKeepsTheTrace) {
  Stream stream(5, "low rank");
  constexpr std::size_t d = 60;
  const auto few = packed(gram(random_rows(stream, 4, d)), d, 0.25f);  // rank 4 and a ridge: exactly what is kept
  std::vector<float> back(few.size());
  expand(low_rank(few, d, 4), d, back);
  for (std::size_t i = 0; i < few.size(); ++i) EXPECT_NEAR(back[i], few[i], 1e-3);
  const auto many = packed(gram(random_rows(stream, 100, d)), d);
  expand(low_rank(many, d, 4), d, back);
  double trace = 0.0, kept = 0.0;
  for (std::size_t i = 0; i < d; ++i) {
    trace += many[packed_size(i + 1) - 1];
    kept += back[packed_size(i + 1) - 1];
  }
  EXPECT_NEAR(kept / trace, 1.0, 1e-4);
}

// Images: a few smooth strokes on a black ground, 28 × 28, as wide and as ill-conditioned as MNIST's moments.
std::vector<std::vector<float>> strokes(Stream& stream, std::size_t count) {
  std::vector<std::vector<float>> images;
  for (std::size_t n = 0; n < count; ++n) {
    std::vector<float> image(785, 0.0f);
    image.back() = 1.0f;
    const double x0 = 9 + 10 * stream.uniform(), y0 = 9 + 10 * stream.uniform(), slope = 2 * stream.uniform() - 1;
    for (std::size_t p = 0; p < 784; ++p) {
      const double dx = static_cast<double>(p % 28) - x0, dy = static_cast<double>(p / 28) - y0;
      const double across = dx - slope * dy, along = dy / 8;
      image[p] = static_cast<float>(std::exp(-across * across - along * along * along * along));
    }
    images.push_back(std::move(image));
  }
  return images;
}

// One client's way there and back in float32: the step alone keeps its own digits, the weights drown them.
TEST(MatrixProduct, StepsOutliveFloat32WhereWeightsDoNot) {
  Stream stream(8, "float32");
  constexpr std::size_t d = 785, out = 10;
  auto moments = gram(strokes(stream, 400));
  double trace = 0.0;
  for (std::size_t i = 0; i < d; ++i) trace += double{moments[i * (d + 1)]};
  const auto a = packed(moments, d, static_cast<float>(0.1 * trace / d));
  const Doubles exact(a.begin(), a.end());
  std::vector<float> weights(out * d), step(out * d);
  for (float& w : weights) w = static_cast<float>(0.05 * stream.normal());
  for (float& s : step) s = static_cast<float>(1e-4 * stream.normal());
  const auto lost = [&](std::vector<float> sent) {  // the largest error of a number, there and back
    const std::vector<float> before = sent;
    times_precision(sent, out, d, std::span<const double>(exact));
    Doubles back(sent.begin(), sent.end());
    EXPECT_TRUE(solve_mean(exact, d, out, back));
    double worst = 0.0;
    for (std::size_t i = 0; i < back.size(); ++i) worst = std::max(worst, std::abs(back[i] - double{before[i]}));
    return worst;
  };
  std::vector<float> moved(out * d);
  for (std::size_t i = 0; i < moved.size(); ++i) moved[i] = weights[i] + step[i];
  const double of_step = lost(step), of_weights = lost(moved);
  // Rounding a number of W·A (2⁻²⁴) is amplified by at most the condition, which the ridge bounds by d/0.1 + 1.
  EXPECT_LT(of_step, 1e-4 * 4 * std::ldexp(1.0, -24) * (d / 0.1 + 1));
  EXPECT_GT(of_weights, 100 * of_step);
}

TEST(Kronecker, OneTermIsTheIdentityAndSeveralSolveTheirSystem) {
  Stream stream(6, "kronecker");
  constexpr std::size_t d = 6, out = 4;
  std::vector<std::vector<float>> inputs, outputs, weights;
  for (int n = 0; n < 3; ++n) {
    inputs.push_back(packed(gram(random_rows(stream, 8, d)), d, 0.1f));
    outputs.push_back(packed(gram(random_rows(stream, 6, out)), out, 0.1f));
    weights.push_back(random_rows(stream, 1, out * d)[0]);
  }
  std::vector<KroneckerTerm> terms;
  Doubles moments(out * d, 0.0);
  for (std::size_t n = 0; n < 3; ++n) {
    terms.push_back({0.2 + 0.1 * static_cast<double>(n), inputs[n], outputs[n]});
    const auto term = std::span<const KroneckerTerm>(terms).subspan(n, 1);
    std::vector<float> own = weights[n];
    times_kronecker(own, out, d, term);
    Doubles alone(own.begin(), own.end());
    EXPECT_LT(solve_kronecker(term, out, d, 5, 1e-9, alone).residual, 1e-9);
    for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(alone[i], weights[n][i], 1e-4);
    for (std::size_t i = 0; i < own.size(); ++i) moments[i] += double{own[i]};
  }
  Doubles solution = moments;
  const auto report = solve_kronecker(terms, out, d, 100, 1e-10, solution);
  EXPECT_LT(report.residual, 1e-10);
  // Put back, the solution gives the moments.
  std::vector<float> again(solution.begin(), solution.end());
  times_kronecker(again, out, d, terms);
  for (std::size_t i = 0; i < moments.size(); ++i) EXPECT_NEAR(again[i], moments[i], 2e-3);
}

TEST(Kronecker, EqualFactorsOfTheOutputsAreTheProductOfTheInputsAlone) {
  Stream stream(7, "equal");
  constexpr std::size_t d = 5, out = 3;
  const auto b = packed(gram(random_rows(stream, 6, out)), out, 0.1f);
  std::vector<std::vector<float>> inputs, weights;
  std::vector<KroneckerTerm> terms;
  Doubles moments(out * d, 0.0), simple(out * d, 0.0), sum(packed_size(d), 0.0);
  for (int n = 0; n < 2; ++n) {
    inputs.push_back(packed(gram(random_rows(stream, 8, d)), d, 0.1f));
    weights.push_back(random_rows(stream, 1, out * d)[0]);
  }
  for (int n = 0; n < 2; ++n) {
    terms.push_back({0.5, inputs[n], b});
    std::vector<float> own = weights[n], plain = weights[n];
    times_kronecker(own, out, d, std::span<const KroneckerTerm>(terms).subspan(static_cast<std::size_t>(n), 1));
    times_precision(plain, out, d, inputs[n]);
    for (std::size_t i = 0; i < own.size(); ++i) {
      moments[i] += own[i];
      simple[i] += 0.5 * plain[i];
    }
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += 0.5 * inputs[n][i];
  }
  solve_kronecker(terms, out, d, 50, 1e-10, moments);
  ASSERT_TRUE(solve_mean(sum, d, out, simple));
  for (std::size_t i = 0; i < simple.size(); ++i) EXPECT_NEAR(moments[i], simple[i], 1e-4);
}

}  // namespace
}  // namespace parley
