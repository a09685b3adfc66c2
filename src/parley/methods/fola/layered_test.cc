// The structured posteriors on linear regression, where the product is known: the pooled least-squares solution
// (with the exact Hessian of each client the product is the global optimum).
#include <gtest/gtest.h>

#include <cmath>

#include "parley/base/errors.h"
#include "parley/engine/test_bed.h"

namespace parley {
namespace {

using Settings = TestBed::Settings;

// Clients that see different directions and different truths: averages of their solutions are far from the pooled one.
TestBed::Regression clients(std::size_t outputs) {
  Stream stream(11, "regression");
  TestBed::Regression problem;
  for (std::size_t n = 0; n < 3; ++n) {
    auto& x = problem.x.emplace_back();
    auto& y = problem.y.emplace_back();
    for (std::size_t i = 0; i < 20 + 10 * n; ++i) {
      std::vector<float> row{static_cast<float>(stream.normal()), static_cast<float>(stream.normal())};
      row[n % 2] *= 0.3f;
      std::vector<float> target;
      for (std::size_t o = 0; o < outputs; ++o) {
        const double truth = row[0] * (1.0 + static_cast<double>(n)) - row[1] * static_cast<double>(o) + 0.5;
        target.push_back(static_cast<float>(truth + 0.3 * stream.normal()));
      }
      x.push_back(row);
      y.push_back(target);
    }
  }
  return problem;
}

Settings to_convergence(const std::string& curvature) {
  return with(with(local(0.3, 800), "method.curvature", curvature), "method.ridge", 1e-7);
}

TestBed::Regression pooled(const TestBed::Regression& problem) {
  TestBed::Regression one{.x = {{}}, .y = {{}}};
  for (std::size_t n = 0; n < problem.x.size(); ++n) {
    one.x[0].insert(one.x[0].end(), problem.x[n].begin(), problem.x[n].end());
    one.y[0].insert(one.y[0].end(), problem.y[n].begin(), problem.y[n].end());
  }
  return one;
}

double distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - double{b[i]}, 2);
  return std::sqrt(sum);
}

class Structured : public testing::TestWithParam<std::string> {};

TEST_P(Structured, OneRoundIsTheGlobalLeastSquaresSolution) {
  // One output: a client's factor of the outputs is a number, and the Kronecker product is exact.
  const auto problem = clients(1);
  TestBed global("fedavg", pooled(problem), local(0.3, 800)), average("fedavg", problem, local(0.3, 800));
  TestBed product("fola", problem, to_convergence(GetParam()));
  global.rounds(1);
  average.rounds(1);
  product.rounds(1);
  EXPECT_GT(distance(average.theta(), global.theta()), 0.05) << "the problem is too easy to tell";
  EXPECT_LT(distance(product.theta(), global.theta()), 1e-3);
}

TEST_P(Structured, OneClientInIsThatClientOut) {
  auto problem = clients(3);
  problem.x.resize(1);
  problem.y.resize(1);
  const auto settings = with(local(0.1, 5), "method.curvature", GetParam());
  TestBed product("fola", problem, settings), alone("fedavg", problem, local(0.1, 5));
  product.rounds(1);
  alone.rounds(1);
  EXPECT_LT(distance(product.theta(), alone.theta()), 1e-4);
}

// Without a memory: with one, Eq. 17 gives everyone the same vote on what is known already, and the fixed point becomes
// that of averaging as the rounds go by.
TEST_P(Structured, TheSolutionIsAFixedPointUnderThePrior) {
  const auto problem = clients(1);
  const auto settings = with(to_convergence(GetParam()), "method.memory", false);
  TestBed product("fola", problem, with(settings, "method.lambda", 0.5));
  product.rounds(4);
  const Flat before(product.theta().begin(), product.theta().end());
  product.round(5);
  EXPECT_LT(distance(product.theta(), before), 2e-3);
}

TEST_P(Structured, ARankBelowTheWidthIsCountedInBytes) {
  const auto problem = clients(2);
  const auto settings = with(local(0.1, 1), "method.curvature", GetParam());
  TestBed full("fola", problem, settings), reduced("fola", problem, with(settings, "method.rank", std::int64_t{1}));
  // Width 3: six numbers packed; one eigenvector, its value and the mean of the others are five.
  EXPECT_EQ(full.train(1, 0).wire_bytes() - reduced.train(1, 0).wire_bytes(), sizeof(float));
}

TEST_P(Structured, AModelThatShowsNoLayersIsRefused) {
  const TestBed::Quadratics one{.h = {{1}}, .m = {{1}}};
  EXPECT_THROW(TestBed("fola", one, {{"method.curvature", GetParam()}}), InputError);
}

// Small matrices in double, by the textbook.
using Matrix = std::vector<std::vector<double>>;

Matrix zeros(std::size_t rows, std::size_t columns) {
  return Matrix(rows, std::vector<double>(columns, 0.0));
}
Matrix transposed(const Matrix& a) {
  Matrix result = zeros(a[0].size(), a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[0].size(); ++j) result[j][i] = a[i][j];
  }
  return result;
}
Matrix product(const Matrix& a, const Matrix& b, double scale = 1.0) {
  Matrix result = zeros(a.size(), b[0].size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b[0].size(); ++j) {
      for (std::size_t k = 0; k < b.size(); ++k) result[i][j] += scale * a[i][k] * b[k][j];
    }
  }
  return result;
}
double mean_diagonal(const Matrix& a) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i][i];
  return sum / static_cast<double>(a.size());
}
// A⁻¹B for a positive definite A, by elimination.
Matrix solve(Matrix a, Matrix b) {
  for (std::size_t k = 0; k < a.size(); ++k) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (i == k) continue;
      const double factor = a[i][k] / a[k][k];
      for (std::size_t j = 0; j < a.size(); ++j) a[i][j] -= factor * a[k][j];
      for (std::size_t j = 0; j < b[0].size(); ++j) b[i][j] -= factor * b[k][j];
    }
  }
  for (std::size_t k = 0; k < a.size(); ++k) {
    for (double& x : b[k]) x /= a[k][k];
  }
  return b;
}

// The examples of a client as rows [x 1], and their targets.
Matrix inputs_of(const TestBed::Regression& problem, std::size_t client) {
  Matrix rows;
  for (const auto& x : problem.x[client]) rows.emplace_back(x.begin(), x.end()).push_back(1.0);
  return rows;
}
Matrix targets_of(const TestBed::Regression& problem, std::size_t client) {
  Matrix rows;
  for (const auto& y : problem.y[client]) rows.emplace_back(y.begin(), y.end());
  return rows;
}

// XᵀX/n with `ridge` times its mean diagonal added to the diagonal.
Matrix second_moments(const Matrix& rows, double ridge) {
  Matrix moments = product(transposed(rows), rows, 1.0 / static_cast<double>(rows.size()));
  const double mean = mean_diagonal(moments);
  for (std::size_t i = 0; i < moments.size(); ++i) moments[i][i] += ridge * mean;
  return moments;
}

// [W b] of a linear model's flat parameters.
Matrix weights_of(std::span<const float> theta, std::size_t outputs) {
  const std::size_t inputs = theta.size() / outputs - 1;
  Matrix w;
  for (std::size_t o = 0; o < outputs; ++o) {
    const auto row = theta.subspan(o * inputs, inputs);
    w.emplace_back(row.begin(), row.end()).push_back(theta[outputs * inputs + o]);
  }
  return w;
}

// One client, so that the product is what it trained. Of round 2, with a few steps and the prior's implicit step behind
// the last: W₀ + (W − W₀)(I + λ·kη·A)⁻¹, where W is what the same steps give without a prior.
void expect_one_pull(const std::string& curvature, std::int64_t local_steps, std::int64_t prior_every) {
  auto problem = clients(1);
  problem.x.resize(1);
  problem.y.resize(1);
  constexpr double kLambda = 3.0, kRate = 0.1;
  const double strength = kLambda * kRate * static_cast<double>(local_steps);
  auto settings = with(local(kRate, local_steps), "method.curvature", curvature);
  settings["method.prior_every"] = prior_every;
  TestBed free("fola", problem, with(settings, "method.lambda", 0.0));
  TestBed held("fola", problem, with(settings, "method.lambda", kLambda));
  for (TestBed* bed : {&free, &held}) bed->round(1);
  const Flat start(free.theta().begin(), free.theta().end());
  for (TestBed* bed : {&free, &held}) bed->round(2);
  Matrix damping = second_moments(inputs_of(problem, 0), 0.1);  // method.ridge
  Matrix way = zeros(3, 1);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) damping[i][j] = (i == j ? 1.0 : 0.0) + strength * damping[i][j];
    way[i][0] = double{free.theta()[i]} - double{start[i]};
  }
  const Matrix shortened = solve(damping, way);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(held.theta()[i] - start[i], shortened[i][0], 1e-4);
  EXPECT_GT(distance(held.theta(), free.theta()), 0.02) << "the prior is too weak to tell";
}

TEST_P(Structured, ThePriorTakesItsImplicitStep) {
  expect_one_pull(GetParam(), 2, 2);
}

TEST_P(Structured, AClientOfOneStepFeelsThePriorToo) {
  expect_one_pull(GetParam(), 1, 1);
  expect_one_pull(GetParam(), 1, 2);  // the step that is left over
}

// ΣaP_nD_n = ΣaP_n·D for the step D of all, by what each client trains to from the same weights.
std::vector<double> product_by_hand(const TestBed::Regression& problem, std::span<const float> start, double rate,
                                    const std::vector<Matrix>& precision) {
  Matrix total = zeros(3, 3), moments = zeros(3, 1);
  double examples = 0.0;
  for (std::size_t n = 0; n < precision.size(); ++n) examples += static_cast<double>(problem.x[n].size());
  for (std::size_t n = 0; n < precision.size(); ++n) {
    TestBed alone("fedavg", problem, local(rate, 3));
    std::ranges::copy(start, alone.theta().begin());
    const Update update = alone.train(2, n);
    const double share = static_cast<double>(problem.x[n].size()) / examples;
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 3; ++j) {
        total[i][j] += share * precision[n][i][j];
        moments[i][0] += share * precision[n][i][j] * (double{update["theta"][j]} - double{start[j]});
      }
    }
  }
  const Matrix step = solve(total, moments);
  std::vector<double> result;
  for (std::size_t i = 0; i < 3; ++i) result.push_back(double{start[i]} + step[i][0]);
  return result;
}

// a·x + b·y.
Matrix sum_of(double a, const Matrix& x, double b, const Matrix& y) {
  Matrix result = zeros(x.size(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < x.size(); ++j) result[i][j] = a * x[i][j] + b * y[i][j];
  }
  return result;
}

TestBed::Regression two_clients() {
  auto problem = clients(1);
  problem.x.resize(2);
  problem.y.resize(2);
  return problem;
}

// One output, so that all factors of the outputs are the same number. Round 2: P_n = A_n/2 + A_S/2 (Eq. 17).
TEST_P(Structured, PrecisionsAreRememberedOverTheRounds) {
  const auto problem = two_clients();
  const auto settings = with(local(0.1, 3), "method.curvature", GetParam());
  TestBed bed("fola", problem, with(with(settings, "method.lambda", 0.0), "method.ridge_growth", 0.0));
  bed.round(1);
  const Flat start(bed.theta().begin(), bed.theta().end());
  bed.round(2);
  const Matrix a[] = {second_moments(inputs_of(problem, 0), 0.1), second_moments(inputs_of(problem, 1), 0.1)};
  const Matrix mean = sum_of(20.0 / 50.0, a[0], 30.0 / 50.0, a[1]);
  const auto expected = product_by_hand(problem, start, 0.1, {sum_of(.5, a[0], .5, mean), sum_of(.5, a[1], .5, mean)});
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(bed.theta()[i], expected[i], 1e-5);
  const auto forgetful = product_by_hand(problem, start, 0.1, {a[0], a[1]});
  EXPECT_GT(std::abs(forgetful[0] - expected[0]), 1e-3) << "the memory is too weak to tell";
}

// A cohort of one in round 2: the mean of both rounds' means, (A_S + A_0)/2.
TEST_P(Structured, PrecisionsAreRememberedOverCohorts) {
  const auto problem = two_clients();
  TestBed bed("fola", problem, with(local(0.1, 3), "method.curvature", GetParam()));
  bed.round(1);
  bed.round(2, {0});
  const Matrix a[] = {second_moments(inputs_of(problem, 0), 0.1), second_moments(inputs_of(problem, 1), 0.1)};
  const Matrix expected = sum_of(.5 * .4 + .5, a[0], .5 * .6, a[1]);
  const auto packed = bed.state().at("inputs");
  for (std::size_t i = 0, next = 0; i < 3; ++i) {
    for (std::size_t j = 0; j <= i; ++j) EXPECT_NEAR(packed[next++], expected[i][j], 1e-5);
  }
}

TEST_P(Structured, TheRidgeGrowsWithTheRounds) {
  const auto problem = two_clients();
  auto settings = with(local(0.1, 3), "method.curvature", GetParam());
  settings["method.lambda"] = 0.0;
  settings["method.memory"] = false;
  settings["method.ridge_growth"] = 2.0;
  TestBed bed("fola", problem, settings);
  bed.round(1);
  const Flat start(bed.theta().begin(), bed.theta().end());
  bed.round(2);
  const double ridge = 0.1 * 2 * 2;
  const auto expected =
      product_by_hand(problem, start, 0.1,
                      {second_moments(inputs_of(problem, 0), ridge), second_moments(inputs_of(problem, 1), ridge)});
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(bed.theta()[i], expected[i], 1e-5);
  // What is remembered, drawn from and pulled with has the first round's ridge.
  const auto packed = bed.state().at("inputs");
  const Matrix mean =
      sum_of(.4, second_moments(inputs_of(problem, 0), .1), .6, second_moments(inputs_of(problem, 1), .1));
  EXPECT_NEAR(packed[2], mean[1][1], 1e-5);
}

// Rows of N(W, scale·(examples·A + prior·I)⁻¹), A as in the state.
TEST_P(Structured, DrawsFromThePosteriorOfAllExamples) {
  TestBed bed("fola", clients(1), {{"method.curvature", GetParam()}});
  const Matrix a{{2, .5, -.3}, {.5, 1, .2}, {-.3, .2, .5}}, identity{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  const auto packed = bed.state().at("inputs");  // the lower triangle row by row
  Matrix precision = a;
  for (std::size_t i = 0, next = 0; i < 3; ++i) {
    for (std::size_t j = 0; j <= i; ++j) packed[next++] = static_cast<float>(a[i][j]);
    for (std::size_t j = 0; j < 3; ++j) precision[i][j] = (40.0 * a[i][j] + 5.0 * identity[i][j]) / 2.0;
  }
  const Matrix covariance = solve(precision, identity);
  constexpr int kDraws = 20000;
  Matrix measured = zeros(3, 3);
  for (int s = 0; s < kDraws; ++s) {
    Stream stream(1, "posterior", 1, static_cast<std::uint64_t>(s));
    Flat theta(3);
    bed.method().posterior()->draw(bed.state(), {.examples = 40, .scale = 2.0, .prior_precision = 5.0}, stream, theta);
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 3; ++j) measured[i][j] += double{theta[i]} * double{theta[j]} / kDraws;  // about 0
    }
  }
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      const double spread = covariance[i][i] * covariance[j][j] + covariance[i][j] * covariance[i][j];
      EXPECT_NEAR(measured[i][j], covariance[i][j], 4 * std::sqrt(spread / kDraws)) << i << ", " << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Curvature, Structured, testing::Values("input", "kfac"),
                         [](const auto& test) { return test.param; });

TEST(Kfac, KeepsTheFactorsOfEachClient) {
  TestBed bed("fola", clients(2), with(local(0.1, 2), "method.curvature", std::string("kfac")));
  Sum sum(bed.schema());
  for (std::size_t client = 0; client < 3; ++client) sum.add(bed.train(1, client));
  ASSERT_EQ(sum.singles().size(), 3u);
  EXPECT_EQ(sum.singles()[2].client, 2u);
  const Flat& outputs = sum.singles()[1]["outputs"];  // [[b₀₀], [b₁₀, b₁₁]] with mean diagonal 1 + output_ridge
  EXPECT_NEAR((outputs[0] + outputs[2]) / 2.0f, 6.0f, 1e-3);
}

// ΣaBWA = ΣaBW_nA as one system for the elements of W. From W = 0 the first step sees the errors −y, so that B is their
// second moment, divided by its mean diagonal (output_scale = "unit").
TEST(Kfac, WeighsEachOutputByTheGradientsThere) {
  const TestBed::Regression problem{.x = {{{1}, {2}}, {{-1}, {.5f}, {1}}},
                                    .y = {{{4, .1f}, {5, -.2f}}, {{.1f, 3}, {-.2f, -6}, {0, 4}}}};
  constexpr double kRate = 0.1, kOutputRidge = 0.01;
  auto settings = with(local(kRate, 1), "method.curvature", std::string("kfac"));
  settings["method.output_ridge"] = kOutputRidge;
  TestBed bed("fola", problem, settings);
  bed.round(1);
  Matrix system = zeros(4, 4), moments = zeros(4, 1);
  const double share[] = {.4, .6};
  for (std::size_t n = 0; n < 2; ++n) {
    const Matrix x = inputs_of(problem, n), y = targets_of(problem, n);
    const double size = mean_diagonal(second_moments(y, 0.0));
    const Matrix a = second_moments(x, 0.1), b = second_moments(y, kOutputRidge);
    // The derivative of two outputs' mean square is the error itself.
    const Matrix w = product(transposed(y), x, kRate / static_cast<double>(x.size()));
    const Matrix bwa = product(product(b, w), a);
    for (std::size_t row = 0; row < 4; ++row) {
      moments[row][0] += share[n] / size * bwa[row / 2][row % 2];
      for (std::size_t column = 0; column < 4; ++column) {
        system[row][column] += share[n] / size * b[row / 2][column / 2] * a[row % 2][column % 2];
      }
    }
  }
  const Matrix solution = solve(system, moments), w = weights_of(bed.theta(), 2);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(w[i / 2][i % 2], solution[i][0], 1e-4);
}

}  // namespace
}  // namespace parley
