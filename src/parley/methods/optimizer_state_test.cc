// Known answers for optimisers whose state outlives a round.
#include "parley/methods/optimizer_state.h"

#include <gtest/gtest.h>

#include "parley/base/errors.h"
#include "parley/engine/test_bed.h"

namespace parley {
namespace {

const TestBed::Quadratics kOne{.h = {{2, .3f}}, .m = {{1, -7}}, .copies = {3}};
const TestBed::Quadratics kTwo{.h = {{2, .5f}, {.1f, 5}}, .m = {{1, 1}, {-1, 3}}, .copies = {2, 3}};

TestBed::Settings settings(const std::string& optimizer, const std::string& state, std::int64_t epochs = 1) {
  return with(with(local(0.05, epochs), "client.optimizer", optimizer), "client.state", state);
}

class EveryOptimizer : public testing::TestWithParam<std::string> {};

// What the state is for: cutting a run into rounds changes nothing.
TEST_P(EveryOptimizer, OneClientWithItsStateIsOneUninterruptedRunBitForBit) {
  for (const char* state : {"worker", "central"}) {
    TestBed rounds("fedavg", kOne, settings(GetParam(), state)),
        steps("fedavg", kOne, settings(GetParam(), "reset", 12));
    rounds.rounds(12);
    steps.rounds(1);
    EXPECT_TRUE(std::ranges::equal(rounds.theta(), steps.theta())) << state;
  }
}

TEST_P(EveryOptimizer, IdenticalClientsAreOneClientBitForBit) {
  const TestBed::Quadratics three{.h = {{2, .3f}, {2, .3f}, {2, .3f}}, .m = {{1, -7}, {1, -7}, {1, -7}}};
  for (const char* state : {"worker", "central"}) {
    TestBed many("fedavg", three, settings(GetParam(), state, 3)), one("fedavg", kOne, settings(GetParam(), state, 3));
    many.rounds(5);
    one.rounds(5);
    EXPECT_TRUE(std::ranges::equal(many.theta(), one.theta())) << state;
  }
}

TEST_P(EveryOptimizer, CentralStateCostsOneModelForEachSlot) {
  const std::size_t slots = optimizers().at(GetParam()).make(TestBed::client_options(GetParam()))->slots().size();
  TestBed bed("fedavg", kTwo, settings(GetParam(), "central"));
  const std::size_t model = bed.theta().size() * sizeof(float);
  // With slots the count of steps travels too. Down, every channel and scalar goes with its name and size.
  EXPECT_EQ(bed.train(1, 0).wire_bytes(), framed(1 + slots, slots > 0 ? 1 : 0, (1 + slots) * model));
  TestBed worker("fedavg", kTwo, settings(GetParam(), "worker"));
  EXPECT_EQ(worker.train(1, 0).wire_bytes(), framed(1, 0, model));
  const std::size_t named = 4 + std::string("slot1").size() + 8, steps = 4 + std::string("optimizer_steps").size() + 8;
  EXPECT_EQ(Broadcast(bed.state()).wire_bytes(),
            Broadcast(worker.state()).wire_bytes() + slots * (model + named) + (slots > 0 ? steps : 0));
}

INSTANTIATE_TEST_SUITE_P(State, EveryOptimizer, testing::ValuesIn(optimizers().names()),
                         [](const auto& test) { return test.param; });

TEST(OptimizerState, WithoutMomentumItIsFedAvgBitForBit) {
  TestBed plain("fedavg", kTwo, local(0.05, 4));
  plain.rounds(5);
  for (const char* state : {"reset", "worker", "central"}) {
    TestBed bed("fedavg", kTwo, with(settings("momentum", state, 4), "client.momentum", 0.0));
    bed.rounds(5);
    EXPECT_TRUE(std::ranges::equal(bed.theta(), plain.theta())) << state;
  }
}

// Momentum on two clients, written out: central slots are averaged like the weights, workers' are each their own.
TEST(OptimizerState, TwoClientsByHand) {
  const TestBed::Quadratics problem{.h = {{1}, {2}}, .m = {{1}, {3}}, .copies = {1, 3}};
  const double h[] = {1, 2}, m[] = {1, 3}, share[] = {.25, .75};
  for (const bool central : {false, true}) {
    TestBed bed("fedavg", problem, settings("momentum", central ? "central" : "worker", 2));
    double theta = 0.0, v[] = {0.0, 0.0};
    for (std::size_t round = 1; round <= 4; ++round) {
      bed.round(round);
      double next = 0.0, mean_v = 0.0;
      for (int n = 0; n < 2; ++n) {
        double y = theta;
        for (int step = 0; step < 2; ++step) {
          v[n] = 0.9 * v[n] + h[n] * (y - m[n]);
          y -= 0.05 * v[n];
        }
        next += share[n] * y;
        mean_v += share[n] * v[n];
      }
      theta = next;
      if (central) v[0] = v[1] = mean_v;
      EXPECT_NEAR(bed.theta()[0], theta, 1e-5) << (central ? "central" : "worker") << ", round " << round;
    }
    if (central) {
      EXPECT_NEAR(bed.state().at("slot1")[0], v[0], 1e-5);
    }
  }
}

// Clients of 1 and 3 steps a round, weighing 1 and 3: the mean count grows by (1·1 + 3·3)/4.
TEST(OptimizerState, TheStepCountTravelsAsAMean) {
  const TestBed::Quadratics uneven{.h = {{1}, {1}}, .m = {{1}, {1}}, .copies = {1, 3}};
  TestBed bed("fedavg", uneven, with(settings("adam", "central"), "client.batch", std::int64_t{1}));
  bed.rounds(2);
  EXPECT_DOUBLE_EQ(bed.state().scalar("optimizer_steps"), 5.0);
}

TEST(OptimizerState, ANegativeMeanOfSquaresIsRefused) {
  TestBed bed("fedavg", kTwo, settings("adam", "central"));
  const Schema schema = bed.method().schema();
  Update update = bed.train(1, 0);
  update.channels()[schema.channel("slot1")][0] = -1.0f;
  EXPECT_NO_THROW(update.check(schema));
  update.channels()[schema.channel("slot2")][0] = -1.0f;
  EXPECT_THROW(update.check(schema), RefusedUpdate);
}

// fedcurv keeps a record of its own; neither may lose the other's.
TEST(OptimizerState, ARecordIsSharedWithTheMethods) {
  TestBed bed("fedcurv", kTwo, settings("adam", "worker"));
  bed.rounds(2);
  const auto record = bed.store().load(1);
  ASSERT_TRUE(record);
  for (const char* name : {"fisher", "fisher_theta", "slot1", "slot2"}) EXPECT_TRUE(record->contains(name)) << name;
  EXPECT_EQ(record->at("optimizer_steps")[0], 2.0f);
}

TEST(OptimizerState, APosteriorStaysTheMethods) {
  for (const char* state : {"worker", "central"}) {
    EXPECT_NE(TestBed("fola", kTwo, settings("momentum", state)).method().posterior(), nullptr);
    EXPECT_EQ(TestBed("fedavg", kTwo, settings("momentum", state)).method().posterior(), nullptr);
  }
}

TEST(OptimizerState, FedNovaRefusesAMomentumItCannotNormalise) {
  for (const std::string state : {"worker", "central"}) {
    try {
      TestBed("fednova", kTwo, settings("momentum", state));
      FAIL() << "accepted";
    } catch (const InputError& error) {
      EXPECT_EQ(std::string(error.what()),
                "client.state = \"" + state +
                    "\": fednova's step weights hold for a momentum that starts at zero; use "
                    "\"reset\"");
    }
    EXPECT_NO_THROW(TestBed("fednova", kTwo, settings("sgd", state)));
  }
}

}  // namespace
}  // namespace parley
