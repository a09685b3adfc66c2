// Known answers for [aggregate]: norm layers and their running statistics, by role.
#include "parley/methods/aggregate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "parley/base/errors.h"
#include "parley/engine/test_bed.h"

namespace parley {
namespace {

using Settings = TestBed::Settings;

// Rows [h, m]: the model measures h and m, so that the statistics of all rows together are known.
const TestBed::Quadratics kThree{.h = {{2, .5f}, {.1f, 5}, {1, 1}},
                                 .m = {{1, 1}, {-1, 3}, {.5f, 100}},
                                 .copies = {2, 3, 5},
                                 .spread = {{.5f, .1f}, {.2f, 1}, {1, 3}}};

Settings normed(const std::string& key = "", const std::string& value = "") {
  Settings settings = with(local(0.1, 2), "model.norm", std::string("batch"));
  return key.empty() ? settings : with(settings, "aggregate." + key, value);
}
Settings all_local() {
  return with(with(normed("norm", "local"), "aggregate.running_mean", std::string("local")), "aggregate.running_var",
              std::string("local"));
}

std::span<const float> part(TestBed& bed, const char* name) {
  return bed.layout().find(name)->of(std::span<const float>(bed.theta()));
}

// A client's mean and population variance of input `j`, and of all clients' rows together.
struct Moments {
  std::vector<double> rows;
  double mean() const { return std::accumulate(rows.begin(), rows.end(), 0.0) / static_cast<double>(rows.size()); }
  double var() const {
    double sum = 0.0;
    for (const double x : rows) sum += (x - mean()) * (x - mean());
    return sum / static_cast<double>(rows.size());
  }
};
Moments rows_of(const TestBed& bed, std::size_t client, std::size_t j) {
  Moments moments;
  for (const auto row : bed.rows(client)) {
    const auto& values = std::get<Values<float>>(bed.data().values);
    moments.rows.push_back(values[row * bed.data().features() + j]);
  }
  return moments;
}

TEST(Aggregate, MixtureIsTheVarianceOfTheClientsDataTogether) {
  TestBed bed("fedavg", kThree, normed("running_var", "mixture"));
  bed.round(1);
  for (std::size_t j = 0; j < 4; ++j) {
    Moments all;
    for (std::size_t client = 0; client < 3; ++client) {
      const auto own = rows_of(bed, client, j).rows;
      all.rows.insert(all.rows.end(), own.begin(), own.end());
    }
    EXPECT_NEAR(part(bed, "norm.running_mean")[j], all.mean(), 1e-5);
    EXPECT_NEAR(part(bed, "norm.running_var")[j], all.var(), 1e-6 * all.var() + 1e-6) << j;
  }
}

TEST(Aggregate, PooledWeighsVariancesByDegreesOfFreedom) {
  for (const bool uniform : {true, false}) {
    TestBed bed("fedavg", kThree, normed("running_var", "pooled"), uniform);
    bed.round(1);
    for (std::size_t j = 0; j < 4; ++j) {
      double sum = 0.0, total = 0.0;
      for (std::size_t client = 0; client < 3; ++client) {
        const Moments own = rows_of(bed, client, j);
        const auto n = static_cast<double>(own.rows.size());
        sum += (uniform ? 1.0 : n) * (n - 1.0) * own.var();
        total += (uniform ? 1.0 : n) * (n - 1.0);
      }
      EXPECT_NEAR(part(bed, "norm.running_var")[j], sum / total, 1e-5) << j;
    }
  }
}

// Spread-out clients: the mean of their variances misses almost all of it.
TEST(Aggregate, TheRulesDifferWhereClientsDo) {
  TestBed mean("fedavg", kThree, normed()), pooled("fedavg", kThree, normed("running_var", "pooled")),
      mixture("fedavg", kThree, normed("running_var", "mixture"));
  for (TestBed* bed : {&mean, &pooled, &mixture}) bed->round(1);
  EXPECT_LT(part(mean, "norm.running_var")[3], 10.0f);
  EXPECT_LT(part(pooled, "norm.running_var")[3], 10.0f);
  EXPECT_GT(part(mixture, "norm.running_var")[3], 2000.0f);
}

TEST(Aggregate, OneClientInIsThatClientOutForEveryRule) {
  const TestBed::Quadratics one{.h = {{2, .5f}}, .m = {{1, 1e3f}}, .copies = {3}, .spread = {{.3f, .01f}}};
  TestBed plain("fedavg", one, normed());
  plain.rounds(2);
  for (const char* rule : {"pooled", "mixture"}) {
    TestBed bed("fedavg", one, normed("running_var", rule));
    bed.rounds(2);
    EXPECT_TRUE(std::ranges::equal(bed.theta(), plain.theta())) << rule;
  }
}

// Only the variances are the rule's; weights, norms, means and counters are as without it, bit for bit.
TEST(Aggregate, ARuleForVariancesChangesNothingElse) {
  TestBed plain("fedprox", kThree, normed()), mixture("fedprox", kThree, normed("running_var", "mixture"));
  plain.round(1);
  mixture.round(1);
  for (const auto& entry : plain.layout().entries()) {
    const bool same = std::ranges::equal(entry.of(plain.theta()), entry.of(mixture.theta()));
    EXPECT_EQ(same, entry.role != Role::running_var) << entry.name;
  }
}

// fedsgd sends a gradient with the statistics behind it, scaffold differences: the rule does not depend on that.
TEST(Aggregate, TheRuleIsTheSameForEveryMethodThatSendsWeights) {
  TestBed expected("fedavg", kThree, normed("running_var", "mixture"));
  expected.round(1);
  for (const char* method : {"fedsgd", "scaffold", "fednova", "fola", "fedcurv", "fedpa"}) {
    TestBed bed(method, kThree, normed("running_var", "mixture"));
    bed.round(1);
    for (const char* name : {"norm.running_mean", "norm.running_var"}) {
      EXPECT_TRUE(std::ranges::equal(part(bed, name), part(expected, name))) << method << " " << name;
    }
  }
}

TEST(Aggregate, WithoutTwoExamplesAnywhereThereIsNothingToPool) {
  const TestBed::Quadratics single{.h = {{2}, {1}}, .m = {{1}, {3}}};
  TestBed bed("fedavg", single, normed("running_var", "pooled"));
  bed.round(1);
  EXPECT_EQ(part(bed, "norm.running_var")[1], 0.0f);
}

TEST(Aggregate, LocalPartsNeverReachTheServer) {
  TestBed bed("fedavg", kThree, all_local());
  const std::vector<float> before(bed.theta().begin(), bed.theta().end());
  for (std::size_t round = 1; round <= 3; ++round) {
    const Update update = bed.train(round, 1);
    for (const auto& entry : bed.layout().entries()) {
      if (!entry.name.starts_with("norm.") || entry.role == Role::counter) continue;
      const auto sent = entry.of(std::span<const float>(update.channels()[0]));
      EXPECT_TRUE(std::ranges::equal(sent, entry.of(std::span(before)))) << entry.name;
    }
    bed.round(round);
    for (const auto& entry : bed.layout().entries()) {
      const bool stays = entry.name.starts_with("norm.") && entry.role != Role::counter;
      const bool same = std::ranges::equal(entry.of(bed.theta()), entry.of(std::span(before)));
      EXPECT_EQ(stays, same) << entry.name;
    }
  }
}

// A client's scale starts where it stopped: after r rounds of two steps it is what one run of 2r steps gives.
TEST(Aggregate, AClientGoesOnFromItsOwnParts) {
  TestBed bed("fedavg", kThree, normed("norm", "local"));
  double scale = 0.0;
  const double mean = rows_of(bed, 1, 3).mean();
  for (std::size_t round = 1; round <= 3; ++round) {
    bed.round(round);
    for (int step = 0; step < 2; ++step) scale -= 0.1 * (scale - mean);
    const auto record = bed.store().load(1);
    ASSERT_TRUE(record);
    EXPECT_NEAR(record->at("local_parts")[3], scale, 1e-5);
  }
}

// μ pulls a client to where it started: with local norms that is its own scale, not the server's.
TEST(Aggregate, AProximalTermPullsLocalPartsToTheClientsOwn) {
  TestBed pulled("fedprox", kThree, with(normed("norm", "local"), "method.mu", 5.0));
  double scale = 0.0;
  const double mean = rows_of(pulled, 1, 3).mean();
  for (std::size_t round = 1; round <= 3; ++round) {
    pulled.round(round);
    const double centre = scale;
    for (int step = 0; step < 2; ++step) scale -= 0.1 * (scale - mean + 5.0 * (scale - centre));
  }
  EXPECT_NEAR(pulled.store().load(1)->at("local_parts")[3], scale, 1e-5);
}

TEST(Aggregate, TheSharedModelAsAClientUsesItHasItsOwnParts) {
  TestBed bed("fedavg", kThree, all_local());
  bed.rounds(2);
  const auto loaded = bed.load_shared(2);
  for (const auto& entry : bed.layout().entries()) {
    const bool local = entry.name.starts_with("norm.") && entry.role != Role::counter;
    const bool same = std::ranges::equal(entry.of(std::span<const float>(loaded)), entry.of(bed.theta()));
    EXPECT_EQ(same, !local) << entry.name;
  }
  const auto mean = bed.layout().find("norm.running_mean")->of(std::span<const float>(loaded));
  EXPECT_NEAR(mean[3], rows_of(bed, 2, 3).mean(), 1e-4);
}

TEST(Aggregate, LocalStatisticsLeaveEveryMethodsServerAlone) {
  for (const char* method : {"fedavg", "fedsgd", "scaffold", "fednova", "fola", "fedcurv", "fedpa"}) {
    TestBed bed(method, kThree, with(normed("running_var", "local"), "aggregate.running_mean", std::string("local")));
    bed.rounds(2);
    for (const char* name : {"norm.running_mean", "norm.running_var"}) {
      for (const float x : part(bed, name)) EXPECT_EQ(x, 0.0f) << method << " " << name;
    }
  }
}

// A pass that measures the Fisher information is no step of training, and leaves the statistics alone.
TEST(Aggregate, ARuleForVariancesDoesNotChangeTheMeans) {
  for (const char* method : {"fedavg", "fedcurv"}) {
    TestBed mean(method, kThree, normed()), mixture(method, kThree, normed("running_var", "mixture"));
    mean.rounds(2);
    mixture.rounds(2);
    const auto a = part(mean, "norm.running_mean"), b = part(mixture, "norm.running_mean");
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_FLOAT_EQ(a[i], b[i]) << method;
  }
}

TEST(FedBn, IsFedAvgWithEverythingLocalBitForBit) {
  TestBed named("fedbn", kThree, normed()), combined("fedavg", kThree, all_local());
  named.rounds(3);
  combined.rounds(3);
  EXPECT_TRUE(std::ranges::equal(named.theta(), combined.theta()));
  EXPECT_EQ(named.store().load(0)->at("local_parts"), combined.store().load(0)->at("local_parts"));
}

TEST(FedBn, WhatStaysAtHomeIsNotCountedAsSent) {
  TestBed bn("fedbn", kThree, normed()), average("fedavg", kThree, normed());
  std::size_t kept = 0, ranges = 0;
  for (const auto& entry : bn.layout().entries()) {
    if (!entry.name.starts_with("norm.") || entry.role == Role::counter) continue;
    kept += entry.size;
    ++ranges;
  }
  ASSERT_GT(kept, 0u);
  EXPECT_EQ(bn.train(1, 0).wire_bytes(),  // what is left out is named by its place and size
            average.train(1, 0).wire_bytes() - kept * sizeof(float) + 4 + ranges * 2 * sizeof(std::uint64_t));
}

TEST(Aggregate, RecordsAreSharedWithTheOptimisersState) {
  TestBed bed("fedbn", kThree,
              with(with(normed(), "client.optimizer", std::string("momentum")), "client.state", std::string("worker")));
  bed.rounds(2);
  for (const char* name : {"local_parts", "slot1"}) EXPECT_TRUE(bed.store().load(1)->contains(name)) << name;
}

TEST(Aggregate, NegativeVariancesAndCountsThatAreNoneAreRefused) {
  const auto refusal = [](const char* rule, const char* channel, float value) {
    TestBed bed("fedavg", kThree, normed("running_var", rule));
    const Schema schema = bed.method().schema();
    Update update = bed.train(1, 0);
    EXPECT_NO_THROW(update.check(schema));
    update.channels()[schema.channel(channel)][1] = value;
    try {
      update.check(schema);
    } catch (const RefusedUpdate& refused) {
      return std::string(refused.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal("mixture", "running_var", -1.0f), "channel 'running_var' must be at least 0: number 1 is -1");
  EXPECT_EQ(refusal("pooled", "running_var", -0.5f), "channel 'running_var' must be at least 0: number 1 is -0.5");
  EXPECT_EQ(refusal("pooled", "degrees", -1.0f),
            "channel 'degrees' must be a whole number, at least 0: number 1 is -1");
  EXPECT_EQ(refusal("pooled", "degrees", 2.5f),
            "channel 'degrees' must be a whole number, at least 0: number 1 is 2.5");
  EXPECT_EQ(refusal("mixture", "running_mean", -7.0f), "accepted");
}

std::string refused(const std::string& method, const Settings& settings) {
  try {
    TestBed bed(method, kThree, settings);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Aggregate, AModelWithoutThePartIsRefused) {
  const std::string remedy = "; use \"mean\", or a model that has them (lenet, cnn4, … with model.norm = \"batch\")";
  EXPECT_EQ(refused("fedavg", {{"aggregate.running_var", std::string("mixture")}}),
            "aggregate.running_var = \"mixture\": the model has no running variances (batch norm)" + remedy);
  EXPECT_EQ(refused("fedavg", {{"aggregate.running_mean", std::string("local")}}),
            "aggregate.running_mean = \"local\": the model has no running means (batch norm)" + remedy);
  EXPECT_EQ(refused("fedbn", {}), "aggregate.norm = \"local\": the model has no norm layers" + remedy);
}

TEST(Aggregate, NormLayersThatStayKeepTheirOptimiserState) {
  for (const char* method : {"fedbn", "fedavg"}) {
    Settings settings = method == std::string("fedbn") ? normed() : normed("norm", "local");
    settings["client.state"] = std::string("central");
    EXPECT_EQ(refused(method, settings), "accepted");  // sgd has none
    settings["client.optimizer"] = std::string("adam");
    EXPECT_EQ(
        refused(method, settings),
        "client.state = \"central\": norm layers that stay with the client have an optimiser state that must stay "
        "too; use \"worker\" or \"reset\"");
  }
}

TEST(Aggregate, MethodsWithASecondModelHaveTheirOwnRule) {
  for (const std::string method : {"ditto", "pfedme"}) {
    EXPECT_EQ(refused(method, normed("running_var", "pooled")),
              "aggregate.running_var = \"pooled\": " + method +
                  " has a rule of its own; its own models keep their norm layers; use fedavg or fedbn");
  }
}

TEST(Aggregate, WhatCannotBeHonouredIsRefused) {
  EXPECT_EQ(refused("fne", normed("running_var", "pooled")),
            "aggregate.running_var = \"pooled\": clients of fne do not send the weights of the model; use \"mean\"");
  EXPECT_EQ(refused("scaffold", normed("norm", "local")),
            "aggregate.norm = \"local\": scaffold sends more than its weights, and what it learns of one client's norm "
            "layers would reach the others; use \"mean\", or fedavg, fedprox, fednova, fedpa or fedsgd");
  EXPECT_EQ(refused("fedavg", with(normed("running_var", "mixture"), "aggregate.running_mean", std::string("local"))),
            "aggregate.running_mean = \"local\": the server's running variance is about its running mean, which then "
            "does not exist; use \"mean\", or running_var = \"local\" too");
  EXPECT_EQ(refused("fedbn", normed("running_var", "mixture")),
            "aggregate.running_var = \"mixture\": fedbn has a rule of its own; use fedavg to choose part by part");
}

}  // namespace
}  // namespace parley
