#include "parley/optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "parley/base/random.h"
#include "parley/optim/local_training.h"
#include "parley/optim/server_step.h"

namespace parley {
namespace {

Options client_options(const std::string& optimizer) {
  auto declared = LocalOptions::declared();
  const auto registry = optimizers();
  for (const auto& option : registry.at(optimizer).about.options) declared.push_back(option);
  return Options("client", declared);
}

std::unique_ptr<Optimizer> make(const std::string& name, std::size_t size, double decay = 0.0) {
  Options options = client_options(name);
  options.set("weight_decay", decay);
  auto optimizer = optimizers().at(name).make(options);
  optimizer->reset(size);
  return optimizer;
}

// The textbook update in double, one element at a time, to hold the fused loops against.
double reference(const std::string& name, double theta, const std::vector<double>& gradients, double lr) {
  double m = 0.0, v = name == "adagrad" ? 0.1 : 0.0;
  for (std::size_t t = 1; t <= gradients.size(); ++t) {
    const double g = gradients[t - 1];
    if (name == "sgd") theta -= lr * g;
    if (name == "momentum") theta -= lr * (m = 0.9 * m + g);
    if (name == "nesterov") m = 0.9 * m + g, theta -= lr * (g + 0.9 * m);
    if (name == "adagrad") v += g * g, theta -= lr * g / (std::sqrt(v) + 1e-8);
    if (name == "rmsprop") v = 0.9 * v + 0.1 * g * g, theta -= lr * g / (std::sqrt(v) + 1e-8);
    if (name == "adam") {
      m = 0.9 * m + 0.1 * g;
      v = 0.999 * v + 0.001 * g * g;
      const double steps = static_cast<double>(t);
      theta -= lr * (m / (1 - std::pow(0.9, steps))) / (std::sqrt(v / (1 - std::pow(0.999, steps))) + 1e-8);
    }
  }
  return theta;
}

TEST(Optimizers, AgreeWithTheTextbook) {
  Stream stream(1, "test");
  constexpr std::size_t n = 37;  // not a multiple of a vector's width
  for (const auto& name : optimizers().names()) {
    auto optimizer = make(name, n);
    Flat theta(n), grads(n);
    std::vector<double> start(n);
    std::vector<std::vector<double>> history(n);
    for (std::size_t i = 0; i < n; ++i) start[i] = theta[i] = static_cast<float>(stream.normal());
    for (int t = 0; t < 5; ++t) {
      for (std::size_t i = 0; i < n; ++i) history[i].push_back(grads[i] = static_cast<float>(stream.normal()));
      optimizer->step(theta, grads, {}, 0.1f);
    }
    for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(theta[i], reference(name, start[i], history[i], 0.1), 1e-5) << name;
  }
}

// Every combination of the term's parts, against the formula.
TEST(Optimizers, ApplyTheTermInTheirOwnPass) {
  const Flat start{1.0f, -2.0f, 3.0f}, grads{0.5f, 0.25f, -1.0f};
  const Flat precision{2.0f, 0.0f, 4.0f}, centre{0.5f, 1.0f, -1.0f}, offset{0.1f, 0.2f, 0.3f};
  for (int mask = 0; mask < 8; ++mask) {
    const bool has_precision = mask & 1, has_centre = mask & 2, has_offset = mask & 4;
    LinearTerm term;
    if (has_precision) term.precision = precision;
    if (has_centre) term.centre = centre;
    if (has_offset) term.offset = offset;
    if (has_precision || has_centre) term.strength = 0.7f;
    Flat theta = start;
    make("sgd", 3, 0.01)->step(theta, grads, term, 0.1f);
    for (std::size_t i = 0; i < 3; ++i) {
      double g = grads[i] + 0.01 * start[i] + (has_offset ? offset[i] : 0.0);
      if (term.strength > 0)
        g += 0.7 * (has_precision ? precision[i] : 1.0) * (start[i] - (has_centre ? centre[i] : 0.0));
      EXPECT_NEAR(theta[i], start[i] - 0.1 * g, 1e-6) << "mask " << mask;
    }
  }
}

TEST(Optimizers, ResetForgets) {
  for (const auto& name : optimizers().names()) {
    auto optimizer = make(name, 2);
    const Flat grads{1.0f, -1.0f};
    Flat first{0.0f, 0.0f}, second{0.0f, 0.0f};
    optimizer->step(first, grads, {}, 0.1f);
    optimizer->reset(2);
    optimizer->step(second, grads, {}, 0.1f);
    EXPECT_EQ(first, second) << name;
  }
}

Options server_options(const std::string& step) {
  return Options("server", server_steps().at(step).about.options);
}

TEST(ServerStep, ReplaceTakesTheTargetExactly) {
  Flat theta{1.0f};
  const double target[] = {0.1f};
  server_steps().at("replace").make(server_options("replace"))->apply(theta, target, {});
  EXPECT_EQ(theta[0], 0.1f);
}

// Reddi et al. 2021, Algorithm 2, written out for two rounds of one number.
TEST(ServerStep, AdaptiveStepsFollowAlgorithm2) {
  for (const std::string name : {"adam", "adagrad", "yogi"}) {
    const Options options = server_options(name);
    const auto step = server_steps().at(name).make(options);
    const double lr = options.real("lr"), beta1 = options.real("beta1"), tau = options.real("tau");
    const double beta2 = name == "adagrad" ? 0.0 : options.real("beta2");
    Flat theta{1.0f}, m{0.0f}, v{step->slots()[1].initial};
    double x = 1.0, mx = 0.0, vx = tau * tau;
    for (const double target : {0.5, 2.0}) {
      const double delta = target - x, d2 = delta * delta;
      mx = beta1 * mx + (1 - beta1) * delta;
      if (name == "adam") vx = beta2 * vx + (1 - beta2) * d2;
      if (name == "adagrad") vx += d2;
      if (name == "yogi") vx -= (1 - beta2) * d2 * (vx > d2 ? 1.0 : -1.0);
      x += lr * mx / (std::sqrt(vx) + tau);
      const std::span<float> slots[] = {m, v};
      const double targets[] = {target};
      step->apply(theta, targets, slots);
      EXPECT_NEAR(theta[0], x, 1e-6) << name;
    }
  }
}

TEST(ServerStep, MomentumKeepsGoing) {
  const auto step = server_steps().at("momentum").make(server_options("momentum"));
  Flat theta{0.0f}, m{0.0f};
  const std::span<float> slots[] = {m};
  const double first[] = {1.0};
  step->apply(theta, first, slots);
  EXPECT_FLOAT_EQ(theta[0], 1.0f);
  step->apply(theta, first, slots);  // Δ = 0, the momentum carries on
  EXPECT_FLOAT_EQ(theta[0], 1.9f);
}

TEST(BatchOrder, VisitsEveryPositionOnceAnEpoch) {
  LocalOptions options;
  options.epochs = 2;
  options.batch = 4;
  BatchOrder order(10, options, Stream(1, "batches"));
  std::vector<std::size_t> sizes, seen(10);
  for (auto batch = order.next(); !batch.empty(); batch = order.next()) {
    sizes.push_back(batch.size());
    for (const auto position : batch) ++seen[position];
  }
  EXPECT_EQ(sizes, (std::vector<std::size_t>{4, 4, 2, 4, 4, 2}));
  EXPECT_EQ(seen, std::vector<std::size_t>(10, 2));
}

TEST(BatchOrder, FullBatchNoShuffleMaxSteps) {
  LocalOptions options;
  options.epochs = 5;
  options.batch = 0;
  options.shuffle = false;
  options.max_steps = 3;
  BatchOrder order(4, options, Stream(1, "batches"));
  std::size_t steps = 0;
  for (auto batch = order.next(); !batch.empty(); batch = order.next(), ++steps) {
    EXPECT_TRUE(std::ranges::equal(batch, std::vector<std::uint32_t>{0, 1, 2, 3}));
  }
  EXPECT_EQ(steps, 3u);
}

TEST(LocalOptions, StepsAreThoseOfTheBatchOrder) {
  for (const std::size_t examples : {0, 1, 10, 12}) {
    for (const std::size_t batch : {0, 4, 100}) {
      for (const std::size_t max_steps : {0, 5}) {
        LocalOptions options;
        options.epochs = 3;
        options.batch = batch;
        options.max_steps = max_steps;
        BatchOrder order(examples, options, Stream(1, "batches"));
        std::size_t steps = 0;
        while (!order.next().empty()) ++steps;
        EXPECT_EQ(options.steps(examples), steps) << examples << " examples, batch " << batch;
      }
    }
  }
}

TEST(LocalOptions, LearningRateDecaysByRound) {
  LocalOptions options;
  options.lr = 0.1;
  options.lr_decay = 0.5;
  EXPECT_DOUBLE_EQ(options.lr_in(1), 0.1);
  EXPECT_DOUBLE_EQ(options.lr_in(3), 0.025);
}

}  // namespace
}  // namespace parley
