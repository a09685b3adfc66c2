#include "parley/update/update.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

#include "parley/base/errors.h"
#include "parley/base/random.h"
#include "parley/base/temp_folder.h"
#include "parley/update/state.h"
#include "parley/update/sum.h"

namespace parley {
namespace {

const SharedSchema kSchema =
    share({.channels = {{.name = "theta", .count = 3}, {.name = "extra", .count = 2, .weighting = Weighting::plain}},
           .scalars = {{"tau"}, {"count", Weighting::plain}}});

Update random_update(Stream& stream) {
  Update update(kSchema);
  update.weight = static_cast<double>(1 + stream.below(100));
  // Whole numbers: their sums are exact in any order, so cuts can be compared bit for bit.
  for (auto& channel : update.channels()) {
    for (auto& x : channel) x = static_cast<float>(stream.below(1000)) - 500.0f;
  }
  for (auto& x : update.scalars()) x = static_cast<double>(stream.below(50));
  update.training = {1.0, 2, 3};
  return update;
}

void expect_equal(const Sum& a, const Sum& b) {
  EXPECT_EQ(a.count(), b.count());
  EXPECT_EQ(a.weight(), b.weight());
  EXPECT_EQ(a.wire_bytes(), b.wire_bytes());
  EXPECT_EQ(a.training().steps, b.training().steps);
  for (const auto& spec : kSchema->channels) {
    EXPECT_TRUE(std::ranges::equal(a.total(spec.name), b.total(spec.name)));
  }
  for (const auto& spec : kSchema->scalars) EXPECT_EQ(a.scalar(spec.name), b.scalar(spec.name));
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
  const SharedSchema schema =
      share({.channels = {{.name = "theta", .count = 1}, {.name = "own", .count = 2, .weighting = Weighting::each}}});
  Sum left(schema), right(schema);
  for (std::size_t client = 0; client < 3; ++client) {
    Update update(schema);
    update.client = client;
    update.weight = static_cast<double>(client + 1);
    update.channels() = {{1.0f}, {static_cast<float>(client), -1.0f}};
    (client < 1 ? left : right).add(update);
  }
  left.merge(right);
  ASSERT_EQ(left.singles().size(), 3u);
  for (std::size_t client = 0; client < 3; ++client) {
    const Single& single = left.singles()[client];
    EXPECT_EQ(single.client, client);
    EXPECT_EQ(single.weight, static_cast<double>(client + 1));
    EXPECT_EQ(single["own"], (Flat{static_cast<float>(client), -1.0f}));
  }
  EXPECT_EQ(left.total("theta")[0], 6.0);
  EXPECT_EQ(left.wire_bytes(), 3 * Update(schema).wire_bytes());
  left.clear();
  EXPECT_TRUE(left.singles().empty());
}

RC_GTEST_PROP(Sum, OneClientInIsThatClientOutBitForBit, (std::uint64_t seed)) {
  Stream stream(seed, "one");
  Update update(kSchema);
  update.weight = static_cast<double>(1 + stream.below(100000));
  for (auto& x : update.channels()[0]) x = static_cast<float>(stream.normal());
  Sum sum(kSchema);
  sum.add(update);
  const auto mean = sum.take_mean("theta");
  for (std::size_t i = 0; i < mean.size(); ++i) RC_ASSERT(static_cast<float>(mean[i]) == update.channels()[0][i]);
}

TEST(Sum, WeightsWhatIsToBeWeighted) {
  Update a(kSchema), b(kSchema);
  a.weight = 1.0;
  b.weight = 3.0;
  a.channels() = {{1, 1, 1}, {1, 1}};
  b.channels() = {{5, 5, 5}, {5, 5}};
  a.scalars() = b.scalars() = {2.0, 2.0};
  Sum sum(kSchema);
  sum.add(a);
  sum.add(b);
  EXPECT_DOUBLE_EQ(sum.total("theta")[0], 16.0);
  EXPECT_DOUBLE_EQ(sum.total("extra")[0], 6.0);
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
      update.check(*kSchema);
    } catch (const RefusedUpdate& refused) {
      return std::string(refused.what());
    }
    return std::string("accepted");
  };
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(refusal([](Update&) {}), "accepted");
  EXPECT_EQ(refusal([](Update& u) { u.channels()[0][1] = nan; }), "channel 'theta' is not finite: number 1 is nan");
  EXPECT_EQ(refusal([](Update& u) { u.channels()[1][0] = -inf; }), "channel 'extra' is not finite: number 0 is -inf");
  EXPECT_EQ(refusal([](Update& u) { u.channels()[0].pop_back(); }),
            "channel 'theta' has 2 numbers; this round expects 3");
  EXPECT_EQ(refusal([](Update& u) { u.channels().pop_back(); }),
            "it has 1 channel and 2 scalars; this round expects 2 and 2");
  EXPECT_EQ(refusal([](Update& u) { u.scalars()[0] = nan; }), "scalar 'tau' is nan; expected a finite number");
  for (const double weight : {0.0, -1.0, static_cast<double>(nan), static_cast<double>(inf)}) {
    EXPECT_NE(refusal([&](Update& u) { u.weight = weight; }), "accepted");
  }
}

TEST(Sum, CheckKeepsNumbersWithinTheirBound) {
  using Bound = ChannelSpec::Bound;
  const auto refusal = [](Bound bound, float x) {
    const SharedSchema schema = share({.channels = {{.name = "x", .count = 2, .bound = bound}}});
    Update update(schema);
    update.weight = 1.0;
    update.channels()[0] = {1.0f, x};
    try {
      update.check(*schema);
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

// Of weights that travel as themselves, of a difference, and of what was measured behind them.
const std::shared_ptr<const Layout> kNormed = std::make_shared<const Layout>(
    std::vector<LayoutEntry>{{.name = "w", .shape = {5}}, {.name = "mean", .shape = {2}, .role = Role::running_mean}});
const SharedSchema kPacked = share(
    {.channels = {{.name = "theta", .layout = kNormed, .relative_to = "theta"}, {.name = "delta", .layout = kNormed}}});

Broadcast packed_broadcast() {
  State state;
  state.add("theta", kNormed, true, {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f});
  return Broadcast(state, 3);
}

Update received(const Update& sent) {
  return Update::decode(sent.encode(), kPacked, packed_broadcast());
}

Update answer() {
  Update update(kPacked);
  update.round = 3;
  update.client = 9;
  update.weight = 2.5;
  update.training = {1.5, 7, 2};
  return update;
}

TEST(Packing, WhatIsOmittedIsTheBroadcasts) {
  Update sent = answer();
  sent["theta"] = {10.0f, 2.0f, 3.0f, 40.0f, 50.0f, 6.0f, 70.0f};
  sent["delta"] = {1.0f, 0.0f, 0.0f, 4.0f, 5.0f, 0.0f, 7.0f};
  for (const char* name : {"theta", "delta"}) sent.pack(name, pack_omitted({{1, 2}, {5, 1}}));
  const Update back = received(sent);
  EXPECT_EQ(back.channels(), sent.channels());
  EXPECT_EQ(back.client, 9u);
  EXPECT_EQ(back.weight, 2.5);
  EXPECT_EQ(back.training.examples, 7u);
}

TEST(Packing, AConstantIsOneNumber) {
  Update sent = answer();
  sent["delta"] = Flat(7, 0.1f);
  sent.pack("delta", pack_constant(0.1f));
  EXPECT_EQ(received(sent).channels(), sent.channels());
  EXPECT_EQ(sent.wire_bytes(), answer().wire_bytes() - 6 * sizeof(float));
}

TEST(Packing, LevelsAreTheVeryFloatsTheyStandFor) {
  for (const std::size_t bits : {2u, 3u, 7u, 8u, 13u, 16u}) {
    const auto most = static_cast<std::int16_t>((1 << (bits - 1)) - 1);
    const std::vector<std::int16_t> codes{most, 0, static_cast<std::int16_t>(-most), 1, -1};
    const float step = 0.1f;
    Update sent = answer();
    const Broadcast broadcast = packed_broadcast();
    for (std::size_t i = 0; i < codes.size(); ++i) {
      sent["delta"][i] = step * static_cast<float>(codes[i]);
      sent["theta"][i] = broadcast.at("theta")[i] + step * static_cast<float>(codes[i]);
    }
    for (const char* name : {"theta", "delta"}) {
      sent[name][5] = 0.25f;
      sent[name][6] = 1e9f;
      sent.pack(name, pack_levels(bits, step, codes, std::span<const float>(sent[name]).last(2)));
    }
    EXPECT_EQ(received(sent).channels(), sent.channels()) << bits;
  }
}

RC_GTEST_PROP(Packing, SparseIsExactAndNeverMuchLongerThanPlain, (std::uint64_t seed)) {
  Stream stream(seed, "sparse");
  Flat values(1 + stream.below(200));
  const float rest = stream.below(2) == 0 ? 0.0f : 0.3f;
  const double share = stream.uniform();
  for (float& x : values) x = stream.uniform() < share ? static_cast<float>(stream.normal()) : rest;
  const std::size_t cut = stream.below(values.size() + 1);
  const std::vector<SparseSegment> segments{{cut, rest}, {values.size() - cut, rest}};
  const Packed packed = pack_sparse(values, segments);
  RC_ASSERT(packed.bytes.size() <= values.size() * sizeof(float) + 4 + 2 * (8 + 1 + 4 + 4));
  Flat back(values.size());
  const ChannelSpec spec{.name = "x", .count = values.size()};
  unpack(spec, packed.how, packed.bytes, packed_broadcast(), back);
  RC_ASSERT(back == values);
}

TEST(Packing, BytesThatNobodyPacksAreRefused) {
  Update sent = answer();
  sent["delta"][2] = 1.0f;
  const std::vector<SparseSegment> segments{{7, 0.0f}};
  sent.pack("delta", pack_sparse(sent["delta"], segments));
  const Bytes good = sent.encode();
  EXPECT_NO_THROW(Update::decode(good, kPacked, packed_broadcast()));
  for (std::size_t cut = 0; cut < good.size(); ++cut) {
    EXPECT_THROW(Update::decode(std::span(good).first(cut), kPacked, packed_broadcast()), RefusedUpdate) << cut;
  }
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_THROW(Update::decode(longer, kPacked, packed_broadcast()), RefusedUpdate);
  // Any one byte changed: refused, or another update; never a crash or a read outside of it.
  Stream stream(7, "flips");
  for (std::size_t at = 0; at < good.size(); ++at) {
    Bytes bad = good;
    bad[at] ^= static_cast<std::byte>(1 + stream.below(255));
    try {
      EXPECT_EQ(Update::decode(bad, kPacked, packed_broadcast()).channels().size(), 2u);
    } catch (const RefusedUpdate&) {
    }
  }
}

TEST(Update, AnAnswerToAnotherRoundIsToldFromAFreshOne) {
  Update late = answer();
  late.round = 2;
  try {
    received(late);
    FAIL() << "accepted";
  } catch (const RefusedUpdate& refused) {
    EXPECT_STREQ(refused.what(), "it answers round 2, and round 3 is open");
  }
}

TEST(Update, AMisspeltNameSaysWhichThereAre) {
  Update update(kSchema);
  try {
    update["thetta"];
    FAIL() << "found";
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(), "unknown channel of an update 'thetta'; did you mean 'theta'? known: theta, extra");
  }
  EXPECT_THROW(update.scalar("taus"), std::logic_error);
}

TEST(Schema, RefusesWhatCouldNotBeSummed) {
  EXPECT_THROW(share({.channels = {{.name = "a", .count = 1}, {.name = "a", .count = 2}}}), std::logic_error);
  EXPECT_THROW(share({.channels = {{.name = "a", .count = 1, .times = "b"}}}), std::logic_error);
  EXPECT_THROW(share({.channels = {}, .scalars = {{"s", Weighting::each}}}), std::logic_error);
}

TEST(Sum, AChannelIsTakenOnce) {
  Stream stream(1, "taken");
  Sum sum(kSchema);
  sum.add(random_update(stream));
  static_cast<void>(sum.take_mean("theta"));
  EXPECT_THROW(sum.take_mean("theta"), std::logic_error);
  EXPECT_THROW(sum.total("theta"), std::logic_error);
  EXPECT_NO_THROW(sum.take_total("extra"));
}

// A contribution that a client forms itself, sent as bytes, is what the server would have added.
RC_GTEST_PROP(Sum, OfContributionsInBytesIsTheFlatSum, (std::uint64_t seed)) {
  Stream stream(seed, "contributions");
  Sum flat(kSchema), merged(kSchema);
  for (int i = 0; i < 5; ++i) {
    const Update update = random_update(stream);
    flat.add(update);
    Sum own(kSchema);
    own.add(update);
    Sum received = Sum::decode(own.encode(), kSchema);
    i % 2 == 0 ? merged.merge(received) : merged.merge(own.encode());
  }
  expect_equal(merged, flat);
}

TEST(Sum, BytesThatAreNoneAreRefused) {
  const SharedSchema schema = share({.channels = {{.name = "own", .count = 2, .weighting = Weighting::each}}});
  Sum sum(schema);
  Update update(schema);
  update.weight = 1.0;
  sum.add(update);
  const Bytes good = sum.encode();
  EXPECT_EQ(Sum::decode(good, schema).singles().size(), 1u);
  for (std::size_t cut = 0; cut < good.size(); ++cut) {
    EXPECT_THROW(Sum::decode(std::span(good).first(cut), schema), InputError) << cut;
  }
}

TEST(Sum, ARefusedMergeChangesNothing) {
  Stream stream(1, "refused merge");
  Sum sum(kSchema);
  sum.add(random_update(stream));
  const Bytes before = sum.encode();
  ByteBuffer longer;
  sum.encode(longer);
  for (std::size_t cut = 0; cut < before.size(); ++cut) {
    EXPECT_THROW(sum.merge(std::span(before).first(cut)), InputError) << cut;
  }
  put(longer, std::uint8_t{0});
  EXPECT_THROW(sum.merge(longer.bytes), InputError);
  EXPECT_TRUE(sum.encode() == before);
}

TEST(Update, CountsItsBytes) {
  Update update(kSchema);
  EXPECT_EQ(update.wire_bytes(), update.encode().size());
  const std::size_t plain = update.wire_bytes();
  update.pack("theta", pack_constant(0.0f));
  EXPECT_EQ(update.wire_bytes(), update.encode().size());
  EXPECT_EQ(update.wire_bytes(), plain - 2 * sizeof(float));
}

std::shared_ptr<const Layout> layout(std::size_t n) {
  return std::make_shared<const Layout>(std::vector<LayoutEntry>{{"w", {static_cast<std::int64_t>(n)}}});
}

TEST(State, RoundTripsThroughAFileBitForBit) {
  const TempFolder folder;
  State state;
  state.add("theta", layout(3), true, {1.0f, 0.1f, -3.0f});
  state.add("server_v", layout(2), false, {1e-6f, 7.0f});
  state.add_scalar("round_trip", true, 0.1);
  state.write(real_files(), folder / "s");
  State other;
  other.add("theta", layout(3), true, {0, 0, 0});
  other.add("server_v", layout(2), false, {0, 0});
  other.add_scalar("round_trip", true, 0.0);
  other.restore(read_safetensors(folder / "s"), "s");
  EXPECT_TRUE(std::ranges::equal(other.at("theta"), state.at("theta")));
  EXPECT_TRUE(std::ranges::equal(other.at("server_v"), state.at("server_v")));
  EXPECT_EQ(other.scalar("round_trip"), 0.1);
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

// What a client must not see does not leave the server, and a snapshot does not follow the state.
TEST(Broadcast, IsANumberedSnapshotOfWhatIsSent) {
  State state;
  state.add("theta", layout(2), true, {1.0f, 2.0f});
  state.add("secret", layout(2), false, {3.0f, 4.0f});
  state.add_scalar("steps", true, 7.0);
  state.add_scalar("boost", false, 8.0);
  const Broadcast sent(state, 5);
  state.at("theta")[0] = 9.0f;
  EXPECT_EQ(sent.number(), 5u);
  EXPECT_EQ(sent.at("theta")[0], 1.0f);
  EXPECT_EQ(sent.scalar("steps"), 7.0);
  EXPECT_THROW(sent.at("secret"), std::logic_error);
  EXPECT_THROW(sent.scalar("boost"), std::logic_error);
}

TEST(Broadcast, LeavesOutWhatIsSentAtOtherTimes) {
  State state;
  state.add("theta", layout(2), true, {1.0f, 2.0f});
  state.add_sent_while("searching", "step", layout(2), {3.0f, 4.0f});
  state.add_scalar("searching", true, 0.0);
  const Broadcast without(state, 1);
  EXPECT_THROW(without.at("step"), std::logic_error);
  state.scalar("searching") = 1.0;
  const Broadcast with(state, 2);
  EXPECT_EQ(with.at("step")[1], 4.0f);
  EXPECT_GT(with.wire_bytes(), without.wire_bytes() + 2 * sizeof(float));
}

TEST(Broadcast, SurvivesTheWire) {
  State state;
  state.add("theta", layout(3), true, {1.0f, -0.0f, 1e-42f});
  state.add("precision", layout(1), true, {2.0f});
  state.add_scalar("steps", true, 0.1);
  const Broadcast sent(state, 12);
  const Bytes bytes = sent.encode();
  EXPECT_EQ(bytes.size(), sent.wire_bytes());
  const Broadcast received = Broadcast::decode(bytes);
  EXPECT_EQ(received.number(), 12u);
  EXPECT_TRUE(std::ranges::equal(received.at("theta"), sent.at("theta")));
  EXPECT_EQ(received.at("precision")[0], 2.0f);
  EXPECT_EQ(received.scalar("steps"), 0.1);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    EXPECT_THROW(Broadcast::decode(std::span(bytes).first(cut)), InputError) << cut;
  }
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
