// Rounds that fit into a time: cohorts and steps on a handful of clients whose times are known by hand.
#include "parley/engine/time_budget.h"

#include <gtest/gtest.h>

#include "parley/base/errors.h"
#include "parley/base/temp_folder.h"
#include "parley/engine/run.h"
#include "parley/engine/test_experiment.h"

namespace parley {
namespace {

const Texts kUneven{"network.speed_spread=1.0", "network.link_spread=0.5"};

// A step lasts a second, a transfer a quarter; by their examples the clients plan 1, 2, 5 and 10 steps.
Experiment four_clients(const Texts& more) {
  DataCache cache;
  const Texts clock{"network.step_seconds=1.0", "network.delay=0.25", "network.bandwidth=1e15"};
  return build(settings_of(kTwelveClients, clock + more), catalogue(), cache, {8, 16, 40, 80});
}

std::vector<std::size_t> cohort_of(const TimeBudget& budget, std::size_t wanted = 4, std::size_t round = 1) {
  const std::vector<std::size_t> all{0, 1, 2, 3};
  auto chosen = budget.cohort({.seed = 1, .round = round, .holders = all, .wanted = wanted});
  std::ranges::sort(chosen);
  return chosen;
}

using Clients = std::vector<std::size_t>;

TEST(FedCs, AsksAsManyAsAreInTime) {
  const auto cohort = [](const char* seconds) {
    const Experiment one = four_clients({"server.cohort=fedcs", std::string("server.round_seconds=") + seconds});
    return cohort_of(TimeBudget(one, false));
  };
  EXPECT_EQ(cohort("10.51"), (Clients{0, 1, 2, 3}));
  EXPECT_EQ(cohort("10.49"), (Clients{0, 1, 2}));
  EXPECT_EQ(cohort("5.51"), (Clients{0, 1, 2}));
  EXPECT_EQ(cohort("5.49"), (Clients{0, 1}));
  EXPECT_EQ(cohort("1.6"), (Clients{0}));
}

TEST(FedCs, ChoosesAmongCandidatesDrawnAtRandomAndTakesTheQuickestWhereNoneIsInTime) {
  const Experiment one = four_clients({"server.cohort=fedcs", "server.round_seconds=2.6"});
  const TimeBudget budget(one, false);
  const std::vector<std::size_t> all{0, 1, 2, 3};
  for (std::size_t round = 1; round <= 20; ++round) {
    const CohortTask task{.seed = 1, .round = round, .holders = all, .wanted = 2};
    auto candidates = draw_at_random(task);
    std::ranges::sort(candidates);  // the quickest first
    const bool both = candidates[1] <= 1;
    EXPECT_EQ(cohort_of(budget, 2, round), both ? candidates : Clients{candidates[0]});
  }
}

TEST(AdaptiveSteps, AreThoseForWhichThereIsTime) {
  const auto steps = [](const char* seconds) {
    const Experiment one = four_clients({"server.steps=adaptive", std::string("server.round_seconds=") + seconds});
    const TimeBudget budget(one, false);
    Clients all;
    for (std::size_t client = 0; client < 4; ++client) all.push_back(budget.steps(client, 1));
    return all;
  };
  EXPECT_EQ(steps("6.4"), (Clients{1, 2, 5, 5}));  // ⌊6.4 − 0.5⌋ = 5
  EXPECT_EQ(steps("3.51"), (Clients{1, 2, 3, 3}));
  EXPECT_EQ(steps("1.6"), (Clients{1, 1, 1, 1}));
  EXPECT_EQ(steps("99"), (Clients{1, 2, 5, 10}));  // never more than [client] says
}

TEST(AdaptiveSteps, LetFedCsAskWhoIsInTimeWithOneStep) {
  const Experiment one = four_clients({"server.steps=adaptive", "server.cohort=fedcs", "server.round_seconds=1.6"});
  EXPECT_EQ(cohort_of(TimeBudget(one, false)), (Clients{0, 1, 2, 3}));
}

TEST(MeasuredTimes, AreThoseOfTheLastTurnAndUnknownClientsAreTried) {
  const Experiment one = four_clients({"server.steps=adaptive", "server.cohort=fedcs", "server.round_seconds=3"});
  TimeBudget budget(one, true);
  EXPECT_EQ(cohort_of(budget), (Clients{0, 1, 2, 3}));
  EXPECT_EQ(budget.steps(3, 1), 0u);
  budget.observe(1, {.client = 3, .seconds = 6.0, .training = 5.0, .steps = 10});  // 1 s, and half a second a step
  EXPECT_EQ(budget.steps(3, 2), 4u);
  EXPECT_EQ(budget.expected_seconds(3, 2), 3.0);
  EXPECT_EQ(cohort_of(budget, 4, 2), (Clients{0, 1, 2, 3}));
  budget.observe(2, {.client = 3, .seconds = 9.0, .training = 4.0, .steps = 4});  // 5 s before the first step
  EXPECT_EQ(cohort_of(budget, 4, 3), (Clients{0, 1, 2}));
  budget.observe(2, {.client = 2, .seconds = 20.0});  // no answer to five steps: 4 s each, or more
  EXPECT_EQ(cohort_of(budget, 4, 3), (Clients{0, 1}));
  EXPECT_EQ(cohort_of(budget, 4, 12), (Clients{0, 1}));
  EXPECT_EQ(cohort_of(budget, 4, 13), (Clients{0, 1, 2, 3}));                      // tried again
  budget.observe(3, {.client = 1, .seconds = 2.0, .training = 50.0, .steps = 2});  // a clock that cannot be right
  EXPECT_EQ(budget.expected_seconds(1, 4), 2.0);

  TimeBudget resumed(one, true);
  resumed.restore(budget.progress());
  for (std::size_t client = 0; client < 4; ++client) {
    EXPECT_EQ(resumed.expected_seconds(client, 4), budget.expected_seconds(client, 4));
  }
}

struct Result {
  std::string model;
  std::vector<Json> metrics;
};

Result run(const Texts& assignments, std::size_t threads = 1) {
  const TempFolder temp;
  auto summary = run_experiment(experiment_of(kTwelveClients, assignments), temp / "run", {.threads = threads});
  return {read_file(temp / "run/model.safetensors"), std::move(summary.metrics)};
}

TEST(TimeBudget, WithTimeForAllGivesTheBytesOfOrdinaryRounds) {
  const Result plain = run(kUneven);
  const Texts ample{"server.cohort=fedcs", "server.steps=adaptive", "server.round_seconds=1e6"};
  EXPECT_TRUE(run(kUneven + ample).model == plain.model);
}

// Transfers hardly count, so that even the slowest has time for a step.
const Texts kLongSteps = kUneven + Texts{"network.delay=0.001", "network.step_seconds=0.1"};

TEST(TimeBudget, KeepsSimulatedRoundsWithinIt) {
  const double ordinary = run(kLongSteps).metrics[0]["simulated_seconds"];
  const double half = ordinary / 2.0;
  const std::string time = "server.round_seconds=" + std::to_string(half);
  for (const Texts& how : {Texts{"server.cohort=fedcs", time}, Texts{"server.steps=adaptive", time}}) {
    const Result short_rounds = run(kLongSteps + how);
    for (const auto& line : short_rounds.metrics) {
      EXPECT_LE(line["simulated_seconds"].get<double>(), half);
      EXPECT_GT(line["simulated_seconds"].get<double>(), half / 4.0);
    }
    EXPECT_TRUE(run(kLongSteps + how, 3).model == short_rounds.model);
    EXPECT_LT(short_rounds.metrics[4]["train_loss"], short_rounds.metrics[0]["train_loss"]);
  }
  const Result chosen = run(kLongSteps + Texts{"server.cohort=fedcs", time});
  EXPECT_GT(chosen.metrics[0]["left_out"], 0.0);
  EXPECT_EQ(chosen.metrics[0]["left_out"].get<double>() + chosen.metrics[0]["clients"].get<double>(),
            run(kLongSteps).metrics[0]["clients"].get<double>());
}

std::string refusal(const Texts& assignments) {
  try {
    run(assignments);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(TimeBudget, RefusesWhatCannotBe) {
  const auto expect = [](const Texts& assignments, const std::string& words) {
    EXPECT_NE(refusal(assignments).find(words), std::string::npos) << refusal(assignments);
  };
  const Texts fedcs{"server.cohort=fedcs", "server.round_seconds=1"},
      adaptive{"server.steps=adaptive", "server.round_seconds=1"};
  expect(fedcs, "without [network]");
  expect(adaptive, "without [network]");
  expect(kUneven + Texts{"server.cohort=fedcs"}, "say how long a round may take");
  expect(kUneven + Texts{"server.round_seconds=3"}, "nothing goes by it");
  expect(kUneven + Texts{"server.cohort=fedcs", "server.round_seconds=1e-3"}, "the quickest needs ");
  expect(kUneven + Texts{"server.steps=adaptive", "server.round_seconds=1e-3"}, "no client can answer");
  expect(kUneven + fedcs + Texts{"server.rounds=buffered"}, "buffered rounds wait for nobody");
  expect(kUneven + adaptive + Texts{"method.name=fedsgd", "client.batch=0"}, "do not train in steps");
  expect(kUneven + adaptive + Texts{"method.name=openes"}, "do not train in steps");
  expect(kUneven + fedcs + Texts{"method.name=fne"}, "chooses its own cohorts");
  expect(kUneven + fedcs + Texts{"method.name=gossip"}, "has no server");
  expect(kUneven + Texts{"server.cohort=fedcs", "server.round_seconds=0.12", "server.min_clients=11"},
         "server.min_clients = 11: only ");
}

}  // namespace
}  // namespace parley
