// The structured posteriors on linear regression, where the product is known: the pooled least-squares solution
// (METHODS.md §1, oracle 7: with the exact Hessian of each client the product is the global optimum).
#include <gtest/gtest.h>

#include "parley/base/errors.h"
#include "parley/methods/test_bed.h"

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

TEST_P(Structured, Oracle7OneRoundIsTheGlobalLeastSquaresSolution) {
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

TEST_P(Structured, TheSolutionIsAFixedPointUnderThePrior) {
  const auto problem = clients(1);
  TestBed product("fola", problem, with(to_convergence(GetParam()), "method.lambda", 0.5));
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

INSTANTIATE_TEST_SUITE_P(Curvature, Structured, testing::Values("input", "kfac"),
                         [](const auto& test) { return test.param; });

// Two outputs whose gradients differ: kfac weighs the clients' say in each output, input cannot.
TEST(Kfac, KeepsTheFactorsOfEachClient) {
  TestBed bed("fola", clients(2), with(local(0.1, 2), "method.curvature", std::string("kfac")));
  Sum sum(bed.method().schema());
  for (std::size_t client = 0; client < 3; ++client) sum.add(bed.train(1, client));
  ASSERT_EQ(sum.singles().size(), 3u);
  EXPECT_EQ(sum.singles()[2].client, 2u);
  const Flat& outputs = sum.singles()[1].channels[2];  // [[b₀₀], [b₁₀, b₁₁]] with mean diagonal 1 + output_ridge
  EXPECT_NEAR((outputs[0] + outputs[2]) / 2.0f, 6.0f, 1e-3);
}

}  // namespace
}  // namespace parley
