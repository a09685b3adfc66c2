// When local training goes on: clients that agree, clients that do not, and a loss that no longer falls.
#include <gtest/gtest.h>

#include <cmath>

#include "parley/engine/test_bed.h"
#include "parley/model/mlp.h"

namespace parley {
namespace {

using Settings = TestBed::Settings;

// Two clients with the same examples of two classes, or with one class each.
TestBed::Classification two_clients(bool alike) {
  Stream stream(3, "two clients");
  TestBed::Classification problem{.x = {{}, {}}, .labels = {{}, {}}, .classes = 2};
  for (std::size_t i = 0; i < 40; ++i) {
    for (std::int32_t label = 0; label < 2; ++label) {
      std::vector<float> x;
      for (std::int32_t j = 0; j < 4; ++j) x.push_back(static_cast<float>(stream.normal() + (j == label ? 2.0 : 1.0)));
      for (std::size_t client = 0; client < 2; ++client) {
        if (!alike && client != static_cast<std::size_t>(label)) continue;
        problem.x[client].push_back(x);
        problem.labels[client].push_back(label);
      }
    }
  }
  return problem;
}

std::unique_ptr<Model> net() {
  return make_native_mlp({.widths = {4, 400, 2}, .activation = Activation::tanh});
}

// From weights at which both layers learn.
struct Started : TestBed {
  Started(const std::string& method, bool alike, const Settings& settings)
      : TestBed(method, two_clients(alike), settings, net) {
    Stream stream(5, "weights");
    for (float& w : theta()) w = static_cast<float>(0.1 * stream.normal());
  }
};

double square(std::span<const float> numbers) {
  double sum = 0.0;
  for (const float x : numbers) sum += double{x} * double{x};
  return sum;
}

bool trains_on(TestBed& bed) {
  return bed.state().scalar("warming") != 0.0;
}

TEST(Agreement, TheSketchIsAsLongAsTheStep) {
  Started laplace("laplace", false, local(0.1, 1)), fedavg("fedavg", false, local(0.1, 1));
  for (std::size_t client = 0; client < 2; ++client) {
    const Update update = laplace.train(1, client), step = fedavg.train(1, client);
    std::vector<float> moved;
    for (std::size_t i = 0; i < fedavg.theta().size(); ++i) moved.push_back(step["theta"][i] - fedavg.theta()[i]);
    const double found = square(update["sketch"]);
    // 2,802 numbers in 1,024 places; five standard deviations of √(2/1024).
    EXPECT_NEAR(found / square(moved), 1.0, 5.0 * std::sqrt(2.0 / 1024.0));
    EXPECT_DOUBLE_EQ(update.scalar("sketched"), found);
  }
}

TEST(Agreement, TrainingGoesOnWhileClientsGoTheSameWay) {
  Started alike("laplace", true, local(0.01, 1)), apart("laplace", false, local(0.01, 1));
  alike.rounds(1);
  apart.rounds(1);
  EXPECT_TRUE(trains_on(alike));
  EXPECT_FALSE(trains_on(apart));
  EXPECT_EQ(alike.state().scalar("points"), 0.0);
  apart.round(2);
  EXPECT_EQ(apart.state().scalar("points"), 1.0);
}

TEST(Agreement, ALossThatHardlyFallsEndsIt) {
  Started slow("laplace", true, local(1e-4, 1));
  slow.round(1);
  EXPECT_TRUE(trains_on(slow));
  slow.round(2);
  EXPECT_FALSE(trains_on(slow));
}

TEST(Agreement, NoMoreThanWarmWhenItCannotBeReached) {
  const Settings never = with(local(0.1, 1), "method.agreement", 1.0);
  Started one("laplace", true, never), two("laplace", false, with(never, "method.warm", std::int64_t{2}));
  one.round(1, {0});
  EXPECT_FALSE(trains_on(one));  // with one client it is 1, which is not more than 1
  two.round(1);
  EXPECT_TRUE(trains_on(two));
  two.round(2);
  EXPECT_FALSE(trains_on(two));
}

// The first layer's A is known by then; a cohort that may change sends it again, and gets the same product.
TEST(Agreement, TheSecondWarmRoundLeavesOutWhatTheServerHas) {
  const Settings twice = with(local(0.1, 1), "method.warm", std::int64_t{2});
  Started known("laplace", false, twice), again("laplace", false, with(twice, "server.participation", 0.9));
  std::size_t bytes[2];
  for (std::size_t round = 1; round <= 2; ++round) {
    bytes[round - 1] = known.train(round, 0).wire_bytes();
    known.round(round);
    again.round(round, {0, 1});
  }
  EXPECT_EQ(bytes[0] - bytes[1], 1 + 5 * sizeof(float) + 10 * 2);  // bits, d, and two bytes each
  for (std::size_t i = 0; i < known.theta().size(); ++i) EXPECT_NEAR(known.theta()[i], again.theta()[i], 1e-6);
}

}  // namespace
}  // namespace parley
