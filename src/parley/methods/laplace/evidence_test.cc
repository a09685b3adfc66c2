// The marginal likelihood where it is known: linear regression with noise of variance 1.
#include "parley/methods/laplace/evidence.h"

#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <cmath>

#include "parley/base/errors.h"
#include "parley/base/random.h"
#include "parley/engine/test_bed.h"
#include "parley/model/mlp.h"

namespace parley {
namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

constexpr Eigen::Index kRows = 40, kWidth = 6;

struct Line {
  Matrix x;
  Vector y;
};

Line line() {
  Stream stream(5, "line");
  Line made{Matrix(kRows, kWidth), Vector(kRows)};
  Vector w(kWidth);
  for (Eigen::Index j = 0; j < kWidth; ++j) w[j] = (j < 3 ? 1.0 : 0.05) * stream.normal();
  for (Eigen::Index i = 0; i < kRows; ++i) {
    for (Eigen::Index j = 0; j < kWidth; ++j) made.x(i, j) = stream.normal();
    made.y[i] = made.x.row(i) * w + stream.normal();
  }
  return made;
}

// log N(y; 0, I + XXᵀ/δ), up to a constant.
double exact(const Line& data, double precision) {
  const Matrix covariance = Matrix::Identity(kRows, kRows) + data.x * data.x.transpose() / precision;
  const Eigen::LLT<Matrix> root(covariance);
  const Matrix lower = root.matrixL();
  return -0.5 * data.y.dot(root.solve(data.y)) - lower.diagonal().array().log().sum();
}

Vector posterior_mean(const Line& data, double precision) {
  const Matrix curvature = data.x.transpose() * data.x + precision * Matrix::Identity(kWidth, kWidth);
  return curvature.llt().solve(data.x.transpose() * data.y);
}

TEST(Evidence, AlternatingWithTheMeanFindsTheMostLikelyPrior) {
  const Line data = line();
  const Vector spectrum =
      Eigen::SelfAdjointEigenSolver<Matrix>(data.x.transpose() * data.x / static_cast<double>(kRows)).eigenvalues();
  double precision = 1.0;
  Evidence found{};
  Vector mean;
  for (int i = 0; i < 200; ++i) {
    mean = posterior_mean(data, precision);
    found = maximise_evidence({spectrum.data(), static_cast<std::size_t>(kWidth)}, mean.squaredNorm(), kRows);
    precision = found.precision;
  }
  for (const double other : {0.5, 0.9, 0.99, 1.01, 1.1, 2.0}) {
    EXPECT_GT(exact(data, precision), exact(data, other * precision)) << other;
  }
  // −N·loss + penalty is the exact logarithm, since a line's posterior is its Laplace approximation.
  const double loss = 0.5 * (data.y - data.x * mean).squaredNorm();
  EXPECT_NEAR(found.log_penalty - loss, exact(data, precision), 1e-9);
  EXPECT_GT(found.effective, 2.0);
  EXPECT_LT(found.effective, 6.0);
}

TEST(Evidence, WithoutCurvatureThereIsNothingToKeep) {
  const std::vector<double> flat(10, 0.0), rounded(10, -1e-9);
  EXPECT_LT(maximise_evidence(flat, 1.0, 100.0).precision, 1e-11);
  EXPECT_EQ(maximise_evidence(rounded, 1.0, 100.0).effective, 0.0);
}

// Two classes that three of twenty features tell apart.
TestBed::Classification noisy_classes() {
  Stream stream(9, "classes");
  TestBed::Classification problem{.x = {{}, {}}, .labels = {{}, {}}, .classes = 2};
  for (std::size_t i = 0; i < 200; ++i) {
    const auto label = static_cast<std::int32_t>(i % 2);
    std::vector<float> x;
    for (int j = 0; j < 20; ++j) x.push_back(static_cast<float>(stream.normal() + (j < 3 ? label - 0.5 : 0.0)));
    problem.x[i % 3 == 0].push_back(x);
    problem.labels[i % 3 == 0].push_back(label);
  }
  return problem;
}

std::unique_ptr<Model> logistic() {
  return make_native_mlp({.widths = {20, 2}});
}

TEST(Evidence, ARunSettlesOnOnePriorWhereverItStarts) {
  std::vector<double> settled;
  for (const double start : {1e-5, 0.1}) {
    TestBed bed("laplace", noisy_classes(),
                {{"method.evidence", true},
                 {"method.prior", start},
                 {"method.warm", std::int64_t{0}},
                 {"method.fisher", std::string("exact")}},
                logistic);
    Stream stream(3, "weights");
    for (float& w : bed.theta()) w = static_cast<float>(0.1 * stream.normal());
    bed.rounds(60);
    settled.push_back(bed.state().scalar("prior"));
  }
  EXPECT_NEAR(settled[0] / settled[1], 1.0, 0.02);
  EXPECT_GT(settled[0], 1e-3);  // 42 numbers, of which few are known: not the 1e-5 that one run began with
}

TEST(Evidence, RefusesClientsThatWouldNeedThePrior) {
  for (const char* key : {"method.local_steps", "method.personal_steps"}) {
    try {
      const TestBed bed("laplace", noisy_classes(),
                        {{"method.evidence", true}, {"method.factors_every", std::int64_t{1}}, {key, std::int64_t{2}}},
                        logistic);
      FAIL() << key;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(std::string(key).substr(7)), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace parley
