#include "parley/update/update.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

#include "parley/base/errors.h"
#include "parley/base/random.h"
#include "parley/base/temp_folder.h"
#include "parley/update/state.h"

namespace parley {
namespace {

const Schema kSchema{.channels = {{"theta", 3, Weighting::by_weight, "theta"}, {"extra", 2, Weighting::plain}},
                     .scalars = {{"tau"}, {"count", Weighting::plain}}};

Update random_update(Stream& stream) {
  Update update;
  update.shape(kSchema);
  update.weight = static_cast<double>(1 + stream.below(100));
  // Whole numbers: their sums are exact in any order, so cuts can be compared bit for bit.
  for (auto& channel : update.channels) {
    for (auto& x : channel) x = static_cast<float>(stream.below(1000)) - 500.0f;
  }
  for (auto& x : update.scalars) x = static_cast<double>(stream.below(50));
  update.training = {1.0, 2, 3};
  return update;
}

void expect_equal(const Sum& a, const Sum& b) {
  EXPECT_EQ(a.count(), b.count());
  EXPECT_EQ(a.weight(), b.weight());
  EXPECT_EQ(a.wire_bytes(), b.wire_bytes());
  EXPECT_EQ(a.training().steps, b.training().steps);
  for (const auto& spec : kSchema.channels) {
    EXPECT_TRUE(std::ranges::equal(a.channel(spec.name), b.channel(spec.name)));
  }
  for (const auto& spec : kSchema.scalars) EXPECT_EQ(a.scalar(spec.name), b.scalar(spec.name));
}

RC_GTEST_PROP(Sum, AnyCutOfTheCohortMergedIsTheFlatSum, (std::uint64_t seed)) {
  Stream stream(seed, "sum");
  const std::size_t cohort = 1 + stream.below(12), cut = stream.below(cohort + 1);
  Sum flat(kSchema), left(kSchema), right(kSchema);
  for (std::size_t i = 0; i < cohort; ++i) {
    const Update update = random_update(stream);
    flat.add(update);
    (i < cut ? left : right).add(update);
  }
  left.merge(right);
  expect_equal(left, flat);
}

TEST(Sum, KeepsForEachClientWhatIsNotSummed) {
  const Schema schema{.channels = {{"theta", 1}, {"own", 2, Weighting::each}}};
  Sum left(schema), right(schema);
  for (std::size_t client = 0; client < 3; ++client) {
    Update update;
    update.shape(schema);
    update.client = client;
    update.weight = static_cast<double>(client + 1);
    update.channels = {{1.0f}, {static_cast<float>(client), -1.0f}};
    (client < 1 ? left : right).add(update);
  }
  left.merge(right);
  ASSERT_EQ(left.singles().size(), 3u);
  for (std::size_t client = 0; client < 3; ++client) {
    const Single& single = left.singles()[client];
    EXPECT_EQ(single.client, client);
    EXPECT_EQ(single.weight, static_cast<double>(client + 1));
    EXPECT_EQ(single.channels[1], (Flat{static_cast<float>(client), -1.0f}));
  }
  EXPECT_EQ(left.channel("theta")[0], 6.0);
  EXPECT_EQ(left.wire_bytes(), 3 * (3 * 4 + 8u));
  left.clear();
  EXPECT_TRUE(left.singles().empty());
}

RC_GTEST_PROP(Sum, OneClientInIsThatClientOutBitForBit, (std::uint64_t seed)) {
  Stream stream(seed, "one");
  Update update;
  update.shape(kSchema);
  update.weight = static_cast<double>(1 + stream.below(100000));
  for (auto& x : update.channels[0]) x = static_cast<float>(stream.normal());
  Sum sum(kSchema);
  sum.add(update);
  const auto mean = sum.take_mean("theta");
  for (std::size_t i = 0; i < mean.size(); ++i) RC_ASSERT(static_cast<float>(mean[i]) == update.channels[0][i]);
}

TEST(Sum, WeightsWhatIsToBeWeighted) {
  Update a, b;
  a.shape(kSchema);
  b.shape(kSchema);
  a.weight = 1.0;
  b.weight = 3.0;
  a.channels = {{1, 1, 1}, {1, 1}};
  b.channels = {{5, 5, 5}, {5, 5}};
  a.scalars = b.scalars = {2.0, 2.0};
  Sum sum(kSchema);
  sum.add(a);
  sum.add(b);
  EXPECT_DOUBLE_EQ(sum.channel("theta")[0], 16.0);
  EXPECT_DOUBLE_EQ(sum.channel("extra")[0], 6.0);
  EXPECT_DOUBLE_EQ(sum.scalar("tau"), 8.0);
  EXPECT_DOUBLE_EQ(sum.scalar("count"), 4.0);
  EXPECT_DOUBLE_EQ(sum.take_mean("theta")[0], 4.0);
  EXPECT_DOUBLE_EQ(sum.take_mean("extra")[0], 3.0);
}

TEST(Sum, CheckNamesWhatIsWrong) {
  Stream stream(1, "check");
  const auto refusal = [&](auto spoil) {
    Update update = random_update(stream);
    spoil(update);
    try {
      Sum::check(kSchema, update);
    } catch (const RefusedUpdate& refused) {
      return std::string(refused.what());
    }
    return std::string("accepted");
  };
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(refusal([](Update&) {}), "accepted");
  EXPECT_EQ(refusal([](Update& u) { u.channels[0][1] = nan; }), "channel 'theta' is not finite: number 1 is nan");
  EXPECT_EQ(refusal([](Update& u) { u.channels[1][0] = -inf; }), "channel 'extra' is not finite: number 0 is -inf");
  EXPECT_EQ(refusal([](Update& u) { u.channels[0].pop_back(); }),
            "channel 'theta' has 2 numbers; this round expects 3");
  EXPECT_EQ(refusal([](Update& u) { u.channels.pop_back(); }),
            "it has 1 channels and 2 scalars; this round expects 2 and 2");
  EXPECT_EQ(refusal([](Update& u) { u.scalars[0] = nan; }), "scalar 'tau' is nan; expected a finite number");
  for (const double weight : {0.0, -1.0, static_cast<double>(nan), static_cast<double>(inf)}) {
    EXPECT_NE(refusal([&](Update& u) { u.weight = weight; }), "accepted");
  }
}

TEST(Sum, CheckKeepsNumbersWithinTheirBound) {
  using Bound = ChannelSpec::Bound;
  const auto refusal = [](Bound bound, float x) {
    const Schema schema{.channels = {{.name = "x", .size = 2, .bound = bound}}};
    Update update;
    update.shape(schema);
    update.weight = 1.0;
    update.channels[0] = {1.0f, x};
    try {
      Sum::check(schema, update);
    } catch (const RefusedUpdate& refused) {
      return std::string(refused.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal(Bound::any, -0.5f), "accepted");
  EXPECT_EQ(refusal(Bound::non_negative, 0.0f), "accepted");
  EXPECT_EQ(refusal(Bound::non_negative, -0.5f), "channel 'x' must be at least 0: number 1 is -0.5");
  EXPECT_EQ(refusal(Bound::positive, 0.0f), "channel 'x' must be above 0: number 1 is 0");
  EXPECT_EQ(refusal(Bound::count, 0.0f), "accepted");
  EXPECT_EQ(refusal(Bound::count, 7.0f), "accepted");
  EXPECT_EQ(refusal(Bound::count, 2.5f), "channel 'x' must be a whole number, at least 0: number 1 is 2.5");
  EXPECT_EQ(refusal(Bound::count, -1.0f), "channel 'x' must be a whole number, at least 0: number 1 is -1");
}

TEST(Update, CountsItsBytes) {
  Update update;
  update.shape(kSchema);
  EXPECT_EQ(update.wire_bytes(), 5 * 4 + 3 * 8u);
  update.encoded_bytes[0] = 5;
  EXPECT_EQ(update.wire_bytes(), 5 + 2 * 4 + 3 * 8u);
}

std::shared_ptr<const Layout> layout(std::size_t n) {
  return std::make_shared<const Layout>(std::vector<LayoutEntry>{{"w", {static_cast<std::int64_t>(n)}}});
}

TEST(State, RoundTripsThroughAFileBitForBit) {
  const TempFolder folder;
  State state;
  state.add("theta", layout(3), true, {1.0f, 0.1f, -3.0f});
  state.add("server_v", layout(2), false, {1e-6f, 7.0f});
  state.scalars["round_trip"] = 0.1;
  state.write(real_files(), folder / "s");
  State other;
  other.add("theta", layout(3), true, {0, 0, 0});
  other.add("server_v", layout(2), false, {0, 0});
  other.scalars["round_trip"] = 0.0;
  other.restore(read_safetensors(folder / "s"), "s");
  EXPECT_TRUE(std::ranges::equal(other.at("theta"), state.at("theta")));
  EXPECT_TRUE(std::ranges::equal(other.at("server_v"), state.at("server_v")));
  EXPECT_EQ(other.scalars["round_trip"], 0.1);
  EXPECT_EQ(state.broadcast_bytes(), 12u);  // server_v stays at home
}

TEST(Broadcast, MayShowOtherValuesOfOneChannel) {
  State state;
  state.add("theta", layout(2), true, {1.0f, 2.0f});
  state.add("slot1", layout(2), true, {3.0f, 4.0f});
  const Flat own{5.0f, 2.0f};
  const Broadcast seen = Broadcast(state).with("theta", own);
  EXPECT_EQ(seen.at("theta").data(), own.data());
  EXPECT_EQ(seen.at("slot1")[1], 4.0f);
  EXPECT_EQ(state.at("theta")[0], 1.0f);
}

TEST(State, ARefusedFileChangesNothing) {
  const TempFolder folder;
  State small;
  small.add("theta", layout(3), true, {1, 2, 3});
  small.write(real_files(), folder / "s");
  State state;
  state.add("theta", layout(3), true, {7, 7, 7});
  state.add("precision", layout(3), true, {8, 8, 8});
  EXPECT_THROW(state.restore(read_safetensors(folder / "s"), "s"), InputError);
  EXPECT_EQ(state.at("theta")[0], 7.0f);
}

}  // namespace
}  // namespace parley
