// What each stage does to an update, channel by channel.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "parley/base/errors.h"
#include "parley/stages/stage.h"

namespace parley {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::unique_ptr<Stage> make(const std::string& name, const std::map<std::string, Value>& settings) {
  const StageRegistry registry = stages();
  Options options("stages", registry.at(name).about.options);
  for (const auto& [key, value] : settings) options.set(key, value);
  return registry.at(name).make(options);
}
std::unique_ptr<Stage> clip(double norm) {
  return make("clip", {{"clip_norm", norm}});
}
std::unique_ptr<Stage> quantise(std::int64_t bits) {
  return make("quantise", {{"quantise_bits", bits}});
}
std::unique_ptr<Stage> sparsify(double share, bool feedback = false) {
  return make("sparsify", {{"sparsify_share", share}, {"sparsify_feedback", feedback}});
}
std::unique_ptr<Stage> byzantine(double share, const std::string& sends, double scale = 1.0) {
  return make("byzantine", {{"byzantine_share", share}, {"byzantine_sends", sends}, {"byzantine_scale", scale}});
}

// A round whose weights travel as themselves ("theta", relative to the broadcast) beside a plain difference ("delta").
class Stages : public testing::Test {
 protected:
  Stages() {
    const auto layout = std::make_shared<const Layout>(
        std::vector<LayoutEntry>{{.name = "w", .shape = {static_cast<std::int64_t>(theta_.size())}}});
    state_.add("theta", layout, true, theta_);
  }

  static Schema both(std::size_t theta, std::size_t delta) {
    return {.channels = {{.name = "theta", .count = theta, .relative_to = "theta"},
                         {.name = "delta", .count = delta, .weighting = Weighting::plain}}};
  }
  static Schema alone(std::size_t size) {
    return {.channels = {{.name = "delta", .count = size, .weighting = Weighting::plain}}};
  }

  static Update update(const Schema& schema, const std::vector<Flat>& channels) {
    Update result(share(schema));
    result.weight = 1.0;
    result.channels() = channels;
    return result;
  }
  Update staged(const Stage& stage, const Schema& schema, const std::vector<Flat>& channels, std::uint64_t seed = 1) {
    ClientMemory memory;
    return staged(stage, schema, channels, memory, seed);
  }
  Update staged(const Stage& stage, const Schema& schema, const std::vector<Flat>& channels, ClientMemory& memory,
                std::uint64_t seed = 1) {
    Update result = update(schema, channels);
    const std::string prefix = stage_prefix(0);
    const Secrets secrets = system_secrets;
    stage.forward({.broadcast = Broadcast(state_),
                   .memory = memory,
                   .prefix = prefix,
                   .noise = Stream(seed, "stage 0"),
                   .secrets = secrets},
                  result);
    // What a stage packs is what it left in the channels.
    const Bytes bytes = result.encode();
    EXPECT_EQ(bytes.size(), result.wire_bytes());
    const Update received = Update::decode(bytes, result.shared_schema(), Broadcast(state_));
    for (std::size_t c = 0; c < channels.size(); ++c) {
      const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
      EXPECT_TRUE(std::ranges::equal(received.channels()[c], result.channels()[c], same));
    }
    return result;
  }
  double norm(const Update& changed) const {
    double squared = 0.0;
    for (std::size_t i = 0; i < theta_.size(); ++i)
      squared += std::pow(double{changed.channels()[0][i]} - theta_[i], 2.0);
    for (const float x : changed.channels()[1]) squared += double{x} * x;
    return std::sqrt(squared);
  }

  const Flat theta_{1.0f, -2.0f, 0.5f};
  State state_;
};

TEST_F(Stages, ClipBoundsAllChannelsTogether) {
  const Schema schema = both(3, 2);
  // The differences are (3, 0, 0) and (0, 4): of norm 5, although neither channel reaches it.
  const std::vector<Flat> channels{{4.0f, -2.0f, 0.5f}, {0.0f, 4.0f}};
  const Update half = staged(*clip(2.5), schema, channels);
  EXPECT_FLOAT_EQ(half.channels()[0][0], 1.0f + 1.5f);
  EXPECT_EQ(half.channels()[0][1], -2.0f);
  EXPECT_FLOAT_EQ(half.channels()[1][1], 2.0f);
  for (const double bound : {4.9999, 1.0, 0.3, 1e-3}) {
    EXPECT_NEAR(norm(staged(*clip(bound), schema, channels)), bound, 1e-6) << bound;
  }
  EXPECT_EQ(staged(*clip(5.0), schema, channels).channels(), channels);
}

TEST_F(Stages, ClipLeavesWhatIsSmallEnoughBitForBit) {
  const Schema schema = both(3, 2);
  const std::vector<Flat> channels{{1.1f, -2.03f, 0.507f}, {1e-30f, -0.01f}};
  EXPECT_EQ(staged(*clip(1.0), schema, channels).channels(), channels);
}

TEST_F(Stages, ClipMeasuresFromTheBroadcastNotFromZero) {
  const Schema schema = both(3, 1);
  EXPECT_EQ(staged(*clip(0.1), schema, {theta_, {0.0f}}).channels()[0], theta_);  // |theta| is far above the bound
}

TEST_F(Stages, WhatIsNotFiniteIsLeftForTheCheck) {
  const Schema schema = both(3, 2);
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    for (const auto* stage : {"clip", "quantise", "sparsify"}) {
      const auto one = stages().at(stage).make(Options("stages", stages().at(stage).about.options));
      const Update result = staged(*one, schema, {{1.0f, -2.0f, 0.5f}, {9.0f, bad}});
      EXPECT_THROW(result.check(schema), RefusedUpdate) << stage << " hid " << bad;
    }
  }
}

TEST_F(Stages, QuantiseCountsItsBytesExactly) {
  for (const std::int64_t bits : {2, 3, 8, 13, 16}) {
    const Schema schema = both(3, 2);
    const Update result = staged(*quantise(bits), schema, {theta_, {1.0f, 2.0f}});
    // How many bits, the step, the numbers.
    const auto packed = [&](std::int64_t n) { return static_cast<std::size_t>(1 + 4 + (n * bits + 7) / 8); };
    EXPECT_EQ(result.packing("theta").bytes.size(), packed(3)) << bits;
    EXPECT_EQ(result.packing("delta").bytes.size(), packed(2)) << bits;
  }
}

// A number of `bits` bits, one of them the sign, is one of 2·levels + 1 values.
TEST_F(Stages, QuantisedValuesLieOnTheGridAndNeverBeyondIt) {
  for (const std::int64_t bits : {2, 5, 8, 16}) {
    const auto levels = static_cast<double>((1 << (bits - 1)) - 1);
    Stream draws(3, "values");
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      Flat values(40);
      float largest = 0.0f;
      for (float& x : values) {
        x = static_cast<float>(draws.normal());
        largest = std::max(largest, std::abs(x));
      }
      const Update result = staged(*quantise(bits), alone(40), {values}, seed);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double place = result.channels()[0][i] / (largest / levels);
        EXPECT_NEAR(place, std::round(place), 1e-2) << bits;
        EXPECT_LE(std::abs(std::round(place)), levels) << bits << " bits cannot hold it";
        EXPECT_LE(std::abs(result.channels()[0][i] - values[i]), 1.001 * largest / levels);
      }
    }
  }
}

// largest / (largest / levels) is not always `levels` in floats; where it lies above, that is no reason to go further
// up.
TEST_F(Stages, TheLargestNumberNeverLeavesTheGrid) {
  const auto stage = quantise(16);
  float largest = 1.0f;
  while (largest / (largest / 32767.0f) <= 32767.0f && largest < 2.0f) largest = std::nextafter(largest, 2.0f);
  ASSERT_LT(largest, 2.0f);
  for (std::uint64_t seed = 0; seed < 5000; ++seed) {
    ASSERT_NEAR(staged(*stage, alone(1), {{largest}}, seed).channels()[0][0], largest, 1e-6) << largest;
  }
}

TEST_F(Stages, QuantiseIsUnbiased) {
  const Flat values{0.9f, -0.35f, 0.02f, 1.0f, 0.0f, -0.77f};
  constexpr int kDraws = 20000;
  std::vector<double> mean(values.size(), 0.0);
  const auto stage = quantise(3);  // steps of 1/3
  for (int draw = 0; draw < kDraws; ++draw) {
    const Update result = staged(*stage, alone(values.size()), {values}, static_cast<std::uint64_t>(draw));
    for (std::size_t i = 0; i < values.size(); ++i) mean[i] += double{result.channels()[0][i]} / kDraws;
  }
  // The deviation of one draw is at most half a step; five deviations of the mean.
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(mean[i], values[i], 5.0 * (0.5 / 3.0) / std::sqrt(kDraws));
}

TEST_F(Stages, SixteenBitsAreNearlyExact) {
  const Schema schema = both(3, 2);
  const std::vector<Flat> channels{{1.25f, -2.5f, 0.625f}, {1.0f, -0.3f}};
  const Update result = staged(*quantise(16), schema, channels);
  for (std::size_t c = 0; c < 2; ++c) {
    for (std::size_t i = 0; i < channels[c].size(); ++i) EXPECT_NEAR(result.channels()[c][i], channels[c][i], 4e-5);
  }
}

TEST_F(Stages, QuantiseIsDecidedByItsStream) {
  Flat values(50);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  const auto once = staged(*quantise(4), alone(50), {values}, 1).channels();
  EXPECT_EQ(once, staged(*quantise(4), alone(50), {values}, 1).channels());
  EXPECT_NE(once, staged(*quantise(4), alone(50), {values}, 2).channels());
}

TEST_F(Stages, QuantiseWorksOnTheDifferenceFromTheBroadcast) {
  const Schema schema = both(3, 1);
  // One number moved: the others must stay on the broadcast exactly, which a grid around zero could not do.
  const Update result = staged(*quantise(2), schema, {{1.001f, -2.0f, 0.5f}, {0.0f}});
  EXPECT_EQ(result.channels()[0][1], -2.0f);
  EXPECT_EQ(result.channels()[0][2], 0.5f);
  EXPECT_NEAR(result.channels()[0][0], 1.001f, 1e-6);
}

TEST_F(Stages, NothingLearnedStaysNothing) {
  const Schema schema = both(3, 2);
  const std::vector<Flat> channels{theta_, {0.0f, 0.0f}};
  EXPECT_EQ(staged(*quantise(8), schema, channels).channels(), channels);
  EXPECT_EQ(staged(*clip(1.0), schema, channels).channels(), channels);
  // So small that a step of the grid is no number: rounded away, not refused.
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_NO_THROW(staged(*quantise(8), schema, {theta_, {tiny, -tiny}}).check(schema));
}

// The counter of a batch norm grows by the number of steps, and would be all there is to clip.
TEST_F(Stages, WhatWasMeasuredBehindTheWeightsIsLeftAlone) {
  const auto behind = [](std::int64_t weights) {
    return std::make_shared<const Layout>(std::vector<LayoutEntry>{
        {.name = "w", .shape = {weights}}, {.name = "mean", .shape = {1}, .role = Role::running_mean}});
  };
  const Schema schema{.channels = {{.name = "theta", .layout = behind(2), .relative_to = "theta"},
                                   {.name = "delta", .layout = behind(1), .weighting = Weighting::plain}}};
  Flat theta = theta_;
  theta[0] += 0.25f;
  theta.back() += 1000.0f;
  const std::vector<Flat> sent{theta, {0.1f, 7.0f}};
  EXPECT_EQ(staged(*clip(0.5), schema, sent).channels(), sent);
  const Update clipped = staged(*clip(0.1), schema, sent);
  EXPECT_LT(clipped["theta"][0], theta[0]);
  EXPECT_EQ(clipped["theta"].back(), theta.back());
  EXPECT_EQ(clipped["delta"][1], 7.0f);
  const Update rounded = staged(*quantise(4), schema, sent);
  EXPECT_EQ(rounded["theta"].back(), theta.back());
  EXPECT_EQ(rounded["delta"], (Flat{0.1f, 7.0f}));
  EXPECT_EQ(rounded.packing("delta").bytes.size(), 1u + 4u + 1u + 4u);  // bits, step, four bits, what was measured
}

TEST_F(Stages, SparsifySendsTheLargestOfEachTensorAndLeavesTheRestOnTheBroadcast) {
  const auto two = std::make_shared<const Layout>(
      std::vector<LayoutEntry>{{.name = "w", .shape = {2}}, {.name = "b", .shape = {1}, .role = Role::bias}});
  const Schema schema{.channels = {{.name = "theta", .layout = two, .relative_to = "theta"}}};
  // By themselves both weights moved more than the bias: it is sent as the largest of its own tensor.
  const Update half = staged(*sparsify(0.5), schema, {{1.5f, -2.25f, 0.53125f}});
  EXPECT_EQ(half["theta"], (Flat{1.5f, -2.0f, 0.53125f}));
  const Update all = staged(*sparsify(1.0), schema, {{1.5f, -2.25f, 0.53125f}});
  EXPECT_EQ(all["theta"], (Flat{1.5f, -2.25f, 0.53125f}));
}

TEST_F(Stages, SparsifySendsWhatItCounts) {
  Flat moved(1000);
  for (std::size_t i = 0; i < moved.size(); ++i) moved[i] = i % 100 == 7 ? static_cast<float>(i) : 0.001f;
  // How many segments, its length, how places are told, what the rest is, how many; places and values.
  constexpr std::size_t kHead = 4 + 8 + 1 + 4 + 4;
  EXPECT_EQ(staged(*sparsify(0.01), alone(1000), {moved}).packing("delta").bytes.size(), kHead + 10 * 8);
  EXPECT_EQ(staged(*sparsify(0.5), alone(2), {{3.0f, 0.5f}}).channels()[0], (Flat{3.0f, 0.0f}));
}

// What is held back in one round is not lost: over the rounds everything is sent but the last rest.
TEST_F(Stages, WithFeedbackSparsifyCarriesWhatItDidNotSend) {
  const Schema schema = both(3, 2);
  const auto stage = sparsify(0.4, true);
  ClientRecord record;
  Flat sent(2, 0.0f);
  for (int round = 0; round < 3; ++round) {
    ClientMemory memory(record);
    const Update result = staged(*stage, schema, {theta_, {4.0f, 3.0f}}, memory);
    EXPECT_EQ(result["theta"], theta_);
    for (std::size_t i = 0; i < 2; ++i) sent[i] += result["delta"][i];
    record = *memory.take();
  }
  // (4, 3): 4 goes; (4, 6): 6 goes; (8, 3): 8 goes.
  EXPECT_EQ(sent, (Flat{12.0f, 6.0f}));
  EXPECT_EQ(record.at(stage_prefix(0) + "delta"), (Flat{0.0f, 3.0f}));

  ClientMemory memory(ClientRecord{{"other", {1.0f}}});
  staged(*sparsify(0.4, false), schema, {theta_, {4.0f, 3.0f}}, memory);
  EXPECT_FALSE(memory.take().has_value());
}

TEST_F(Stages, ByzantineClientsStepBackwardsFromTheBroadcast) {
  const Schema schema = both(3, 2);
  const std::vector<Flat> channels{{1.5f, -2.0f, 0.25f}, {3.0f, -4.0f}};
  const Update reversed = staged(*byzantine(1.0, "reversed", 2.0), schema, channels);
  EXPECT_EQ(reversed["theta"], (Flat{0.0f, -2.0f, 1.0f}));
  EXPECT_EQ(reversed["delta"], (Flat{-6.0f, 8.0f}));
  EXPECT_EQ(staged(*byzantine(0.0, "reversed"), schema, channels).channels(), channels);
}

TEST_F(Stages, ByzantineNoiseIsAsLargeAsAnHonestStepAndKnowsNothingOfIt) {
  constexpr std::size_t kSize = 10'000;
  Flat step(kSize);
  for (std::size_t i = 0; i < kSize; ++i) step[i] = i % 2 == 0 ? 3.0f : -4.0f;  // root mean square 3.54
  const Update noise = staged(*byzantine(1.0, "noise", 2.0), alone(kSize), {step});
  double squares = 0.0, with_the_step = 0.0;
  for (std::size_t i = 0; i < kSize; ++i) {
    squares += std::pow(noise["delta"][i], 2.0);
    with_the_step += double{noise["delta"][i]} * step[i];
  }
  // Both are means of 10,000: deviations of .7 % and 1 % of these scales.
  EXPECT_NEAR(std::sqrt(squares / kSize), 2.0 * std::sqrt(12.5), 0.03 * 2.0 * std::sqrt(12.5));
  EXPECT_NEAR(with_the_step / kSize, 0.0, 0.05 * 2.0 * 12.5);
}

// Who is byzantine is drawn once: a client does not change sides, whatever the later rounds' noise.
TEST_F(Stages, AByzantineClientStaysOne) {
  const auto stage = byzantine(0.3, "reversed");
  std::size_t turned = 0;
  constexpr std::uint64_t kClients = 1000;
  for (std::uint64_t client = 0; client < kClients; ++client) {
    ClientMemory first;
    const bool bad = staged(*stage, alone(1), {{1.0f}}, first, client)["delta"][0] < 0.0f;
    turned += bad ? 1 : 0;
    ClientMemory second(first.take());
    EXPECT_EQ(staged(*stage, alone(1), {{1.0f}}, second, client + kClients)["delta"][0] < 0.0f, bad) << client;
    EXPECT_FALSE(second.take().has_value()) << "nothing new to remember";
  }
  EXPECT_NEAR(static_cast<double>(turned), 300.0, 5.0 * std::sqrt(1000 * 0.3 * 0.7));
}

// A later stage changes what an earlier one packed; what travels is what it left.
TEST_F(Stages, AStageBehindAnotherIsNotSentAsThatOnePackedIt) {
  Update update(share(both(3, 2)));
  update.weight = 1.0;
  update.channels() = {{4.0f, -2.0f, 0.5f}, {0.0f, 4.0f}};
  ClientMemory memory;
  const std::string prefix = stage_prefix(0);
  const Secrets secrets = system_secrets;
  for (const auto& stage : {quantise(8), clip(2.5)}) {
    stage->forward({Broadcast(state_), memory, prefix, Stream(1, "stage"), secrets}, update);
  }
  const Update received = Update::decode(update.encode(), update.shared_schema(), Broadcast(state_));
  EXPECT_EQ(received.channels(), update.channels());
}

}  // namespace
}  // namespace parley
