#include "parley/update/update.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "parley/base/counted.h"
#include "parley/base/errors.h"

namespace parley {
namespace {

constexpr std::uint32_t kMagic = 0x31505550;  // "PUP1": the format and its version

// A float is not finite when all bits of its exponent are set. On integers the loop vectorises; on floats it would not.
bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f800000u;
  std::uint32_t bad = 0;
  for (const float x : values)
    bad |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(x) & kExponent) == kExponent);
  return bad == 0;
}

std::size_t first_not_finite(std::span<const float> values) {
  std::size_t i = 0;
  while (i < values.size() && std::isfinite(values[i])) ++i;
  return i;
}

bool within(ChannelSpec::Bound bound, float x) {
  switch (bound) {
    case ChannelSpec::Bound::any: return true;
    case ChannelSpec::Bound::non_negative: return x >= 0.0f;
    case ChannelSpec::Bound::positive: return x > 0.0f;
    case ChannelSpec::Bound::count: return x >= 0.0f && x == std::floor(x);
  }
  return false;
}

const char* describe(ChannelSpec::Bound bound) {
  switch (bound) {
    case ChannelSpec::Bound::any: return "finite";
    case ChannelSpec::Bound::non_negative: return "at least 0";
    case ChannelSpec::Bound::positive: return "above 0";
    case ChannelSpec::Bound::count: return "a whole number, at least 0";
  }
  return "?";
}

void check_bound(const ChannelSpec& spec, std::span<const float> values) {
  if (spec.bound == ChannelSpec::Bound::any) return;
  const auto bad = std::ranges::find_if_not(values, [&](float x) { return within(spec.bound, x); });
  if (bad == values.end()) return;
  fail<RefusedUpdate>("channel '{}' must be {}: number {} is {}", spec.name, describe(spec.bound), bad - values.begin(),
                      *bad);
}

void check_channel(const ChannelSpec& spec, std::span<const float> values) {
  if (values.size() != spec.size()) {
    fail<RefusedUpdate>("channel '{}' has {}; this round expects {}", spec.name, counted(values.size(), "number"),
                        spec.size());
  }
  if (!all_finite(values)) {
    const std::size_t i = first_not_finite(values);
    fail<RefusedUpdate>("channel '{}' is not finite: number {} is {}", spec.name, i, values[i]);
  }
  check_bound(spec, values);
}

template <class Sink>
void put_channel(Sink& sink, const Packed& packed, std::span<const float> values) {
  switch (packed.how) {
    case Packing::plain: return put_all(sink, values);
    case Packing::omitted: return put_without(sink, values, packed.omitted);
    default: return put_all(sink, packed.bytes);
  }
}

}  // namespace

void Update::shape(SharedSchema schema) {
  schema_ = std::move(schema);
  channels_.resize(schema_->channels.size());
  for (std::size_t i = 0; i < channels_.size(); ++i) channels_[i].assign(schema_->channels[i].size(), 0.0f);
  scalars_.assign(schema_->scalars.size(), 0.0);
  packed_.assign(schema_->channels.size(), {});
  sent_bytes_ = 0;
  weight = 0.0;
  training = {};
}

void Update::check(const Schema& expected) const {
  if (!(weight > 0.0) || !std::isfinite(weight)) {
    fail<RefusedUpdate>("its weight is {}; expected a number above 0", weight);
  }
  if (channels_.size() != expected.channels.size() || scalars_.size() != expected.scalars.size()) {
    fail<RefusedUpdate>("it has {} and {}; this round expects {} and {}", counted(channels_.size(), "channel"),
                        counted(scalars_.size(), "scalar"), expected.channels.size(), expected.scalars.size());
  }
  for (std::size_t c = 0; c < channels_.size(); ++c) check_channel(expected.channels[c], channels_[c]);
  for (std::size_t s = 0; s < scalars_.size(); ++s) {
    if (!std::isfinite(scalars_[s])) {
      fail<RefusedUpdate>("scalar '{}' is {}; expected a finite number", expected.scalars[s].name, scalars_[s]);
    }
  }
}

template <class Sink>
void Update::write(Sink& sink) const {
  put(sink, kMagic);
  put(sink, static_cast<std::uint64_t>(round));
  put(sink, static_cast<std::uint64_t>(client));
  put(sink, weight);
  put(sink, training.loss_sum);
  put(sink, static_cast<std::uint64_t>(training.examples));
  put(sink, static_cast<std::uint64_t>(training.steps));
  put(sink, static_cast<std::uint32_t>(scalars_.size()));
  put_all(sink, scalars_);
  put(sink, static_cast<std::uint32_t>(channels_.size()));
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    ByteCounter length;
    put_channel(length, packed_[c], channels_[c]);
    put(sink, static_cast<std::uint8_t>(packed_[c].how));
    put(sink, static_cast<std::uint64_t>(length.size));
    put_channel(sink, packed_[c], channels_[c]);
  }
}

Bytes Update::encode() const {
  ByteBuffer buffer;
  buffer.bytes.reserve(wire_bytes());
  write(buffer);
  return std::move(buffer.bytes);
}

std::size_t Update::wire_bytes() const {
  if (sent_bytes_ > 0) return sent_bytes_;
  ByteCounter counter;
  write(counter);
  return counter.size;
}

void Update::read(ByteReader& from, const Broadcast& broadcast) {
  if (from.take<std::uint32_t>() != kMagic) fail("this is not an update of a version that this program knows");
  round = from.take<std::uint64_t>();
  if (round != broadcast.number()) fail("it answers round {}, and round {} is open", round, broadcast.number());
  client = from.take<std::uint64_t>();
  weight = from.take<double>();
  training.loss_sum = from.take<double>();
  training.examples = from.take<std::uint64_t>();
  training.steps = from.take<std::uint64_t>();
  if (const auto count = from.take<std::uint32_t>(); count != scalars_.size()) {
    fail("it has {}; this round expects {}", counted(count, "scalar"), scalars_.size());
  }
  from.take_all(std::span(scalars_));
  if (const auto count = from.take<std::uint32_t>(); count != channels_.size()) {
    fail("it has {}; this round expects {}", counted(count, "channel"), channels_.size());
  }
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    const auto how = static_cast<Packing>(from.take<std::uint8_t>());
    unpack(schema_->channels[c], how, from.raw(from.take<std::uint64_t>()), broadcast, channels_[c]);
  }
  from.finish();
}

Update Update::decode(std::span<const std::byte> bytes, SharedSchema schema, const Broadcast& broadcast) {
  Update update(std::move(schema));
  ByteReader from(bytes);
  try {
    update.read(from, broadcast);
    update.sent_bytes_ = bytes.size();
  } catch (const InputError& error) {
    throw RefusedUpdate(error.what());
  }
  return update;
}

}  // namespace parley
