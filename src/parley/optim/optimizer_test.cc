#include "parley/optim/optimizer.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>

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

std::unique_ptr<Optimizer> make(const std::string& name, std::size_t size,
                                const std::map<std::string, double>& settings = {}) {
  Options options = client_options(name);
  for (const auto& [key, value] : settings) options.set(key, value);
  auto optimizer = optimizers().at(name).make(options);
  optimizer->reset(size);
  return optimizer;
}

// The textbook update in double, one element at a time, to hold the fused loops against.
double reference(const std::string& name, double theta, const std::vector<double>& gradients, double lr) {
  double m = 0.0, v = name == "adagrad" ? 0.1 : name == "yogi" ? 1e-6 : 0.0, u = 0.0;
  for (std::size_t t = 1; t <= gradients.size(); ++t) {
    const double g = gradients[t - 1];
    if (name == "sgd") theta -= lr * g;
    if (name == "momentum") theta -= lr * (m = 0.9 * m + g);
    if (name == "nesterov") m = 0.9 * m + g, theta -= lr * (g + 0.9 * m);
    if (name == "adagrad") v += g * g, theta -= lr * g / (std::sqrt(v) + 1e-8);
    if (name == "rmsprop") v = 0.9 * v + 0.1 * g * g, theta -= lr * g / (std::sqrt(v) + 1e-8);
    if (name == "adadelta") {
      v = 0.95 * v + 0.05 * g * g;
      const double d = g * std::sqrt(u + 1e-6) / std::sqrt(v + 1e-6);
      u = 0.95 * u + 0.05 * d * d;
      theta -= lr * d;
    }
    if (name == "yogi") {
      m = 0.9 * m + 0.1 * g;
      v -= 0.001 * g * g * (v > g * g ? 1.0 : -1.0);
      theta -= lr * m / (std::sqrt(v) + 1e-3);
    }
    if (name == "adam" || name == "adamw") {
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

// Three steps of lr = 0.1 from θ = 1 with the gradients ½, −1, ¼, worked out by hand with each rule's defaults.
TEST(Optimizers, ThreeStepsByHand) {
  const std::map<std::string, std::array<double, 3>> expected{
      {"sgd", {0.95, 1.05, 1.025}},
      {"momentum", {0.95, 1.005, 1.0295}},             // v = 0.5, −0.55, −0.245
      {"nesterov", {0.905, 1.0545, 1.05155}},          // g + 0.9v = 0.95, −1.495, 0.0295
      {"adagrad", {0.9154846, 1.0015509, 0.9805157}},  // a = 0.35, 1.35, 1.4125
      {"rmsprop", {0.6837723, 0.9694865, 0.8962417}},  // s = 0.025, 0.1225, 0.1165
      {"adadelta", {0.9995528, 1.0001213, 0.9999316}},
      {"adam", {0.9, 0.9366104, 0.9502794}},
      {"adamw", {0.9, 0.9366104, 0.9502794}},
      {"yogi", {0.7031404, 0.8543661, 0.9201516}}};
  for (const auto& name : optimizers().names()) {
    auto optimizer = make(name, 1);
    Flat theta{1.0f};
    for (std::size_t t = 0; t < 3; ++t) {
      optimizer->step(theta, Flat{std::array{0.5f, -1.0f, 0.25f}[t]}, {}, 0.1f);
      EXPECT_NEAR(theta[0], expected.at(name)[t], 2e-7) << name << ", step " << t + 1;
    }
    EXPECT_EQ(optimizer->state().steps, 3.0);
  }
}

// Kiss 2021, Eq. 4.6 and 4.7, read as docs/methods.md says, on ½h(w − m)²: velocities that hold η, and a gradient at
// the point that looks ahead. Ours keep η out of the slot, and keep the look-ahead point as θ.
TEST(Optimizers, MomentumAndNesterovAreTheThesisReadings) {
  constexpr double h = 3.0, m = 2.0, lr = 0.05, beta = 0.9;
  for (const bool ahead : {false, true}) {
    auto optimizer = make(ahead ? "nesterov" : "momentum", 1);
    Flat theta{0.0f};
    double w = 0.0, v = 0.0;
    for (int t = 0; t < 30; ++t) {
      optimizer->step(theta, Flat{static_cast<float>(h * (theta[0] - m))}, {}, static_cast<float>(lr));
      v = beta * v - lr * h * (w + (ahead ? beta * v : 0.0) - m);
      w += v;
      EXPECT_NEAR(theta[0], w + (ahead ? beta * v : 0.0), 1e-5) << "step " << t;
    }
  }
}

TEST(Optimizers, WithoutMemoryTheyAreSgd) {
  for (const std::string name : {"momentum", "nesterov"}) {
    auto plain = make("sgd", 2), optimizer = make(name, 2, {{"momentum", 0.0}});
    Flat a{1.0f, -1.0f}, b = a;
    for (int t = 0; t < 5; ++t) {
      plain->step(a, Flat{a[0] * 0.3f, a[1]}, {}, 0.1f);
      optimizer->step(b, Flat{b[0] * 0.3f, b[1]}, {}, 0.1f);
    }
    EXPECT_EQ(a, b) << name;
  }
}

// θ ← (1 − lr·λ)θ − Adam's step: the decay is not divided by the root of the second moment.
TEST(Optimizers, AdamWDecaysBesideTheStep) {
  auto optimizer = make("adamw", 1, {{"weight_decay", 0.1}});
  Flat theta{1.0f};
  const double expected[] = {0.99 - 0.1, 0.9177104, 0.9222023};
  for (std::size_t t = 0; t < 3; ++t) {
    optimizer->step(theta, Flat{std::array{0.5f, -1.0f, 0.25f}[t]}, {}, 0.1f);
    EXPECT_NEAR(theta[0], expected[t], 2e-7);
  }
  auto adam = make("adam", 1, {{"weight_decay", 0.1}});
  Flat coupled{1.0f};
  adam->step(coupled, Flat{0.5f}, {}, 0.1f);
  EXPECT_NEAR(coupled[0], 0.9, 1e-6);  // the first step has length lr whatever the gradient
}

TEST(Optimizers, ClipTheTasksGradientAndNothingElse) {
  const Flat grads{3.0f, -4.0f}, offset{10.0f, 20.0f};
  Flat clipped{1.0f, 1.0f}, untouched{1.0f, 1.0f};
  make("sgd", 2, {{"clip_norm", 1.0}})->step(clipped, grads, {.offset = offset}, 0.1f);
  EXPECT_FLOAT_EQ(clipped[0], 1.0f - 0.1f * (0.6f + 10.0f));
  EXPECT_FLOAT_EQ(clipped[1], 1.0f - 0.1f * (-0.8f + 20.0f));
  make("sgd", 2, {{"clip_norm", 5.0}})->step(untouched, grads, {}, 0.1f);
  EXPECT_FLOAT_EQ(untouched[0], 0.7f);
  EXPECT_FLOAT_EQ(untouched[1], 1.4f);
}

TEST(Optimizers, SquaresStayWhatTheyAreDeclared) {
  for (const auto& name : optimizers().names()) {
    auto optimizer = make(name, 1);
    Flat theta{0.0f};
    Stream stream(1, "squares");
    for (int t = 0; t < 200; ++t) {
      optimizer->step(theta, Flat{static_cast<float>(std::pow(10.0, stream.uniform(-6, 3)))}, {}, 0.1f);
      for (std::size_t k = 0; k < optimizer->slots().size(); ++k) {
        EXPECT_TRUE(!optimizer->slots()[k].square || optimizer->state().slots[k][0] >= 0.0f) << name;
      }
    }
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
    make("sgd", 3, {{"weight_decay", 0.01}})->step(theta, grads, term, 0.1f);
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
  options.lr_decay_every = 2;  // a step schedule
  EXPECT_DOUBLE_EQ(options.lr_in(2), 0.1);
  EXPECT_DOUBLE_EQ(options.lr_in(3), 0.05);
  EXPECT_DOUBLE_EQ(options.lr_in(5), 0.025);
}

TEST(LocalOptions, TimeBasedDecayIsTheThesisFormula) {
  LocalOptions options;
  options.lr = 0.1;
  options.lr_time_decay = 0.5;
  EXPECT_DOUBLE_EQ(options.lr_in(1), 0.1);
  EXPECT_DOUBLE_EQ(options.lr_in(4), 0.1 / 2.5);  // η/(1 + φt)
}

TEST(LocalOptions, CosineFallsToItsEndAndStays) {
  LocalOptions options;
  options.lr = 1.0;
  options.lr_cosine = 10;
  options.lr_cosine_end = 0.2;
  EXPECT_DOUBLE_EQ(options.lr_in(1), 1.0);
  EXPECT_DOUBLE_EQ(options.lr_in(6), 0.6);
  EXPECT_DOUBLE_EQ(options.lr_in(11), 0.2);
  EXPECT_DOUBLE_EQ(options.lr_in(50), 0.2);
}

TEST(LocalOptions, SchedulesMultiply) {
  LocalOptions options;
  options.lr = 1.0;
  options.lr_decay = 0.5;
  options.lr_time_decay = 1.0;
  options.lr_cosine = 2;
  options.lr_cosine_end = 0.5;
  EXPECT_DOUBLE_EQ(options.lr_in(2), 0.5 * 0.5 * 0.75);
}

}  // namespace
}  // namespace parley
