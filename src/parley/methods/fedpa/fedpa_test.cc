#include "parley/methods/fedpa/fedpa.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <Eigen/Dense>

#include "parley/base/random.h"
#include "parley/engine/test_bed.h"
#include "parley/methods/fedpa/posterior_samples.h"

namespace parley {
namespace {

// Σ̂⁻¹(start − x̄) with Σ̂ = ρ_ℓ·I + (1 − ρ_ℓ)·S written out as a matrix.
Eigen::VectorXd dense_delta(const std::vector<FlatDouble>& samples, std::span<const float> start, double rho) {
  const auto d = static_cast<Eigen::Index>(start.size());
  const auto l = static_cast<Eigen::Index>(samples.size());
  Eigen::MatrixXd x(l, d);
  for (Eigen::Index k = 0; k < l; ++k) {
    x.row(k) = Eigen::Map<const Eigen::RowVectorXd>(samples[static_cast<std::size_t>(k)].data(), d);
  }
  const Eigen::RowVectorXd mean = x.colwise().mean();
  const Eigen::MatrixXd centred = x.rowwise() - mean;
  const double shrink = 1.0 / (1.0 + static_cast<double>(l - 1) * rho);
  Eigen::MatrixXd covariance = shrink * Eigen::MatrixXd::Identity(d, d);
  if (l > 1) covariance += (1.0 - shrink) / static_cast<double>(l - 1) * centred.transpose() * centred;
  const Eigen::VectorXd from = Eigen::Map<const Eigen::VectorXf>(start.data(), d).cast<double>() - mean.transpose();
  return covariance.ldlt().solve(from);
}

RC_GTEST_PROP(PosteriorSamples, TheRecursionIsTheDenseFormula, (std::uint64_t seed)) {
  Stream stream(seed, "samples");
  const std::size_t d = 1 + stream.below(20), l = 1 + stream.below(12);
  const double rho = std::pow(10.0, stream.uniform(-3.0, 3.0));
  std::vector<FlatDouble> samples(l, FlatDouble(d));
  Flat start(d);
  for (auto& x : start) x = static_cast<float>(stream.normal());
  PosteriorSamples recursion(d, rho);
  for (auto& sample : samples) {
    for (auto& x : sample) x = 0.3 + stream.normal();
    recursion.add(sample);
  }
  const FlatDouble delta = recursion.delta(start);
  const Eigen::VectorXd expected = dense_delta(samples, start, rho);
  const Eigen::VectorXd error = Eigen::Map<const Eigen::VectorXd>(delta.data(), expected.size()) - expected;
  RC_ASSERT(error.norm() <= 1e-8 * (1.0 + expected.norm()));
}

TEST(PosteriorSamples, WithoutTrustTheCovarianceIsTheIdentity) {
  PosteriorSamples samples(2, 0.0);
  samples.add(FlatDouble{1.0, 2.0});
  samples.add(FlatDouble{3.0, -2.0});
  const FlatDouble delta = samples.delta(Flat{5.0f, 7.0f});
  EXPECT_DOUBLE_EQ(delta[0], 3.0);
  EXPECT_DOUBLE_EQ(delta[1], 7.0);
}

// Samples whose mean and covariance are exactly those of the posterior of ½ Σ h_j (θ_j − m_j)²: N(m, 1/h).
PosteriorSamples exact_samples(const std::vector<double>& h, const std::vector<double>& m, double rho) {
  PosteriorSamples samples(h.size(), rho);
  const double reach = std::sqrt((2.0 * static_cast<double>(h.size()) - 1.0) / 2.0);
  for (std::size_t j = 0; j < h.size(); ++j) {
    for (const double side : {-reach, reach}) {
      FlatDouble sample(m.begin(), m.end());
      sample[j] += side / std::sqrt(h[j]);
      samples.add(sample);
    }
  }
  return samples;
}

// With the true posteriors Σ Δ_i = Σ H_i(θ − m_i): gradient descent on the sum of the clients' losses.
TEST(PosteriorSamples, ExactPosteriorsLeadToTheOptimumOfTheSum) {
  const std::vector<std::vector<double>> h{{2, .5}, {.1, 5}}, m{{1, 1}, {-1, 3}};
  constexpr double kTrust = 1e6;
  Flat theta{0.0f, 0.0f};
  for (int round = 0; round < 300; ++round) {
    FlatDouble sum(2, 0.0);
    for (std::size_t client = 0; client < 2; ++client) {
      const FlatDouble delta = exact_samples(h[client], m[client], kTrust).delta(theta);
      for (std::size_t j = 0; j < 2; ++j) sum[j] += delta[j];
    }
    for (std::size_t j = 0; j < 2; ++j) theta[j] -= 0.1f * static_cast<float>(sum[j]);
  }
  for (std::size_t j = 0; j < 2; ++j) {
    const double optimum = (h[0][j] * m[0][j] + h[1][j] * m[1][j]) / (h[0][j] + h[1][j]);
    EXPECT_NEAR(theta[j], optimum, 1e-4);
  }
}

const TestBed::Quadratics kTwoDimensions{.h = {{2, .5f}, {.1f, 5}}, .m = {{1, 1}, {-1, 3}}, .copies = {2, 3}};

TestBed::Settings sampling(TestBed::Settings settings, std::int64_t samples, double burn_in, double rho) {
  settings["method.burn_in_rounds"] = std::int64_t{0};
  settings["method.samples"] = samples;
  settings["method.burn_in"] = burn_in;
  settings["method.rho"] = rho;
  return settings;
}

TEST(FedPa, BurnInRoundsAreFedAvgBitForBit) {
  TestBed pa("fedpa", kTwoDimensions, with(local(0.1, 5), "method.burn_in_rounds", std::int64_t{3})),
      avg("fedavg", kTwoDimensions, local(0.1, 5));
  pa.rounds(3);
  avg.rounds(3);
  EXPECT_TRUE(std::ranges::equal(pa.theta(), avg.theta()));
  pa.round(4);
  avg.round(4);
  EXPECT_FALSE(std::ranges::equal(pa.theta(), avg.theta()));
}

TEST(FedPa, OneSampleOfTheLastStepIsFedAvg) {
  TestBed pa("fedpa", kTwoDimensions, sampling(local(0.1, 5), 1, 0.8, 3.0)),
      avg("fedavg", kTwoDimensions, local(0.1, 5));
  pa.rounds(5);
  avg.rounds(5);
  for (int j = 0; j < 2; ++j) EXPECT_NEAR(pa.theta()[j], avg.theta()[j], 1e-6);
}

// θ_t = m(1 − (1 − ηh)^t) from 0. Seven steps, burn-in of one, two windows: steps 2–4 and 5–7.
TEST(FedPa, SamplesAreMeansOverWindowsBehindTheBurnIn) {
  const TestBed::Quadratics one{.h = {{1}}, .m = {{1}}};
  TestBed bed("fedpa", one, sampling(local(0.1, 7), 2, 0.2, 5.0));
  bed.round(1);
  const auto at = [](int t) { return 1.0 - std::pow(0.9, t); };
  const double a = (at(2) + at(3) + at(4)) / 3.0, b = (at(5) + at(6) + at(7)) / 3.0;
  const double scatter = (a - b) * (a - b) / 2.0;
  EXPECT_NEAR(bed.theta()[0], 6.0 / (1.0 + 5.0 * scatter) * (a + b) / 2.0, 1e-6);  // ρ_ℓ = 1/(1 + ρ)
}

TEST(FedPa, AClientOfFewStepsTakesFewerSamples) {
  const TestBed::Quadratics one{.h = {{1}}, .m = {{1}}};
  TestBed few("fedpa", one, sampling(local(0.1, 3), 50, 0.0, 5.0)),
      three("fedpa", one, sampling(local(0.1, 3), 3, 0.0, 5.0));
  few.round(1);
  three.round(1);
  EXPECT_EQ(few.theta()[0], three.theta()[0]);
}

// Clients whose examples scatter as their curvature says, Var(m) = 1/h: then the means over windows have a covariance
// in proportion to 1/h, and the clients' pulls balance where the gradients of their losses do. A window of 80 steps is
// eight times as long as the slower client remembers, so its covariance is an eighth too small: 10/(10 + 8/7).
TEST(FedPa, GoesToTheOptimumOfTheSumWhereFedAvgStopsShort) {
  TestBed::Quadratics noisy{.h = {{1}, {10}}, .m = {{0}, {1}}, .copies = {1600, 1600}};
  noisy.spread = {{1}, {1 / std::sqrt(10.0f)}};
  TestBed::Settings settings = local(0.1, 1);
  settings["client.batch"] = std::int64_t{1};
  settings["client.shuffle"] = true;
  const auto mean_theta = [&](const std::string& method, const TestBed::Settings& chosen) {
    TestBed bed(method, noisy, chosen);
    double sum = 0.0;
    for (std::size_t round = 1; round <= 120; ++round) {
      bed.round(round);
      if (round > 40) sum += bed.theta()[0];
    }
    return sum / 80.0;
  };
  EXPECT_NEAR(mean_theta("fedavg", settings), 0.5, 0.05);  // the mean of the clients' optima
  EXPECT_NEAR(mean_theta("fedpa", with(sampling(settings, 16, 0.2, 1e4), "server.lr", 1e-3)), 0.897, 0.02);
}

}  // namespace
}  // namespace parley
