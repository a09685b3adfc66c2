// What every registered method must keep. A new method is tested here by being registered.
#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "parley/base/errors.h"
#include "parley/base/temp_folder.h"
#include "parley/engine/test_bed.h"

namespace parley {
namespace {

// Small optima: squared gradients, which some methods use as curvature, stay below what the learning rate can bear.
const TestBed::Quadratics kFour{.h = {{2, .5f, 1}, {.1f, 5, 1}, {1, 1, 3}, {4, .2f, .5f}},
                                .m = {{.1f, .1f, 0}, {-.1f, .3f, .2f}, {0, 0, .1f}, {.2f, -.2f, .5f}},
                                .copies = {2, 3, 1, 4}};

// "name" or "name key=value …": every registered method, some whose clients' optimisers outlive a round, and some with
// rules for norm layers.
std::vector<std::string> methods_and_variants() {
  std::vector<std::string> all;
  const MethodRegistry registry = methods();
  for (const auto& entry : registry.entries()) {
    std::string& name = all.emplace_back(entry.about.name);
    for (const auto& [key, value] : entry.about.needs) {
      if (const auto* text = std::get_if<std::string>(&value)) name += " " + key + "=" + *text;
    }
  }
  all.push_back("laplace method.line_search=always");
  for (const char* rule : {"running_var=pooled", "running_var=mixture", "running_var=local", "norm=local"}) {
    all.push_back(std::string("fedavg model.norm=batch aggregate.") + rule);
  }
  for (const char* name : {"fedavg", "fedcurv", "fedpa", "fola"}) {
    for (const char* state : {"worker", "central"}) {
      all.push_back(std::string(name) + " client.optimizer=momentum client.state=" + state);
    }
  }
  return all;
}

class Contract : public testing::TestWithParam<std::string> {
 protected:
  static std::string method() { return GetParam().substr(0, GetParam().find(' ')); }
  static TestBed::Settings settings() {
    TestBed::Settings all = local(0.05, 3);
    std::istringstream words(GetParam());
    std::string word;
    for (words >> word; words >> word;) all[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
    return all;
  }
};

TEST_P(Contract, SchemaNamesAreUniqueAndSized) {
  TestBed bed(method(), kFour, settings());
  std::set<std::string> names;
  for (const auto& channel : bed.method().schema().channels) {
    EXPECT_TRUE(names.insert(channel.name).second);
    EXPECT_GT(channel.size(), 0u);
    if (channel.relative_to.empty()) continue;
    EXPECT_EQ(bed.state().at(channel.relative_to).size(), channel.size());
  }
}

TEST_P(Contract, UpdatesFitTheSchema) {
  TestBed bed(method(), kFour, settings());
  for (std::size_t round = 1; round <= 2; ++round) {
    for (std::size_t client = 0; client < bed.clients(); ++client) {
      const Update update = bed.train(round, client);
      EXPECT_NO_THROW(update.check(*bed.schema()));
      EXPECT_GT(update.training.examples, 0u);
      EXPECT_GT(update.training.steps, 0u);
    }
    bed.round(round);
  }
}

TEST_P(Contract, AnyCutOfTheCohortMergedGivesTheSameState) {
  for (std::size_t cut = 0; cut <= 4; ++cut) {
    TestBed flat(method(), kFour, settings()), split(method(), kFour, settings());
    for (std::size_t round = 1; round <= 3; ++round) {
      flat.round(round);
      Sum left(split.schema()), right(split.schema());
      for (std::size_t client = 0; client < 4; ++client) (client < cut ? left : right).add(split.train(round, client));
      left.merge(right);
      split.serve(round, left);
    }
    for (std::size_t i = 0; i < flat.theta().size(); ++i) EXPECT_NEAR(split.theta()[i], flat.theta()[i], 1e-6);
  }
}

TEST_P(Contract, OneClientFindsItsOwnOptimum) {
  const TestBed::Quadratics one{.h = {{2, .5f, 1}}, .m = {{1, 1, 0}}, .copies = {3}};
  TestBed alone(method(), one, settings());
  alone.rounds(400);
  for (std::size_t j = 0; j < 3; ++j) EXPECT_NEAR(alone.theta()[j], one.m[0][j], 0.02);
}

TEST_P(Contract, ANumberThatIsNotFiniteIsRefusedWhereverItIs) {
  TestBed bed(method(), kFour, settings());
  const Schema schema = bed.method().schema();
  const Update good = bed.train(1, 0);
  EXPECT_NO_THROW(good.check(schema));
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (std::size_t c = 0; c < good.channels().size(); ++c) {
      Update update = good;
      update.channels()[c].back() = bad;
      EXPECT_THROW(update.check(schema), RefusedUpdate) << schema.channels[c].name << " " << bad;
    }
    for (std::size_t s = 0; s < good.scalars().size(); ++s) {
      Update update = good;
      update.scalars()[s] = bad;
      EXPECT_THROW(update.check(schema), RefusedUpdate) << schema.scalars[s].name << " " << bad;
    }
  }
}

// Bytes and back: what a server receives is what the client sent, bit for bit, however it was packed.
TEST_P(Contract, AnUpdateSurvivesTheWire) {
  TestBed bed(method(), kFour, settings());
  for (std::size_t round = 1; round <= 2; ++round) {
    for (std::size_t client = 0; client < bed.clients(); ++client) {
      const Update sent = bed.train(round, client);
      const Bytes bytes = sent.encode();
      EXPECT_EQ(bytes.size(), sent.wire_bytes());
      const Update received = Update::decode(bytes, bed.schema(), Broadcast(bed.state(), round));
      EXPECT_EQ(received.channels(), sent.channels());
      EXPECT_EQ(received.scalars(), sent.scalars());
      EXPECT_EQ(received.weight, sent.weight);
      EXPECT_EQ(received.client, client);
    }
    bed.round(round);
  }
}

// State and client records through files in the middle of a run change nothing, bit for bit.
TEST_P(Contract, ACheckpointInTheMiddleChangesNothing) {
  const TempFolder folder;
  TestBed straight(method(), kFour, settings()), first(method(), kFour, settings()),
      second(method(), kFour, settings());
  straight.rounds(4);
  first.rounds(2);
  first.state().write(real_files(), folder / "state");
  second.state().restore(read_safetensors(folder / "state"), "state");
  for (std::size_t client = 0; client < 4; ++client) {
    if (auto record = first.store().load(client)) second.store().stage(client, std::move(*record));
  }
  second.store().commit(2);
  second.round(3);
  second.round(4);
  EXPECT_TRUE(std::ranges::equal(second.theta(), straight.theta()));
}

TEST_P(Contract, TheSameSeedGivesTheSameBits) {
  TestBed a(method(), kFour, settings()), b(method(), kFour, settings());
  a.rounds(3);
  b.rounds(3);
  EXPECT_TRUE(std::ranges::equal(a.theta(), b.theta()));
}

// What evaluation relies on: no spread is the model itself, and a draw follows from its stream alone.
TEST_P(Contract, APosteriorIsDrawnAroundTheModel) {
  TestBed bed(method(), kFour, settings());
  if (bed.method().posterior() == nullptr) return;
  bed.rounds(2);
  const auto drawn = [&](double scale, std::uint64_t sample) {
    Stream stream(1, "posterior", 2, sample);
    Flat theta(bed.theta().size());
    bed.method().posterior()->draw(bed.state(), {.examples = 10, .scale = scale, .prior_precision = 1}, stream, theta);
    return theta;
  };
  EXPECT_TRUE(std::ranges::equal(drawn(0.0, 0), bed.theta()));
  EXPECT_EQ(drawn(1.0, 0), drawn(1.0, 0));
  EXPECT_NE(drawn(1.0, 0), drawn(1.0, 1));
}

// Steps that leave the numbers, and squared errors that do, for methods that take no steps on a client.
TEST_P(Contract, DivergenceIsARefusalNotACrash) {
  const TestBed::Quadratics far_away{.h = {{2, .5f, 1}}, .m = {{1e30f, 1e30f, 1e30f}}};
  auto wild = settings();
  wild["client.lr"] = 1e30;
  wild["client.epochs"] = std::int64_t{20};
  TestBed bed(method(), far_away, wild);
  const auto train_and_check = [&] {
    for (std::size_t round = 1; round <= 20; ++round) {
      const Update update = bed.train(round, 0);
      update.check(*bed.schema());
      Sum sum(bed.schema());
      sum.add(update);
      bed.serve(round, sum);
    }
  };
  EXPECT_THROW(train_and_check(), RunError);  // a refusal, or the server's that the step diverged
}

INSTANTIATE_TEST_SUITE_P(EveryMethod, Contract, testing::ValuesIn(methods_and_variants()), [](const auto& test) {
  std::string name = test.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

}  // namespace
}  // namespace parley
