#include "parley/update/update.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "parley/base/errors.h"

namespace parley {
namespace {

template <class Specs>
std::size_t position(const Specs& specs, const std::string& name, const char* what) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name == name) return i;
  }
  fmt::print(stderr, "bug: no {} '{}' in the schema\n", what, name);
  std::abort();
}

// A float is not finite when all bits of its exponent are set. On integers the loop vectorises; on floats it would not.
bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f800000u;
  std::uint32_t bad = 0;
  for (const float x : values)
    bad |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(x) & kExponent) == kExponent);
  return bad == 0;
}

void add_scaled(std::span<double> sum, double factor, std::span<const float> x) {
  double* to = sum.data();
  const float* from = x.data();
  for (std::size_t i = 0; i < sum.size(); ++i) to[i] += factor * static_cast<double>(from[i]);
}

void add_product(std::span<double> sum, double factor, std::span<const float> x, std::span<const float> y) {
  double* to = sum.data();
  const float *a = x.data(), *b = y.data();
  for (std::size_t i = 0; i < sum.size(); ++i) to[i] += factor * static_cast<double>(a[i]) * static_cast<double>(b[i]);
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

}  // namespace

std::size_t Schema::channel(const std::string& name) const {
  return position(channels, name, "channel");
}
std::size_t Schema::scalar(const std::string& name) const {
  return position(scalars, name, "scalar");
}

void Update::shape(const Schema& schema) {
  channels.resize(schema.channels.size());
  for (std::size_t i = 0; i < channels.size(); ++i) channels[i].assign(schema.channels[i].size, 0.0f);
  scalars.assign(schema.scalars.size(), 0.0);
  encoded_bytes.assign(schema.channels.size(), 0);
  weight = 0.0;
  training = {};
}

std::size_t Update::wire_bytes() const {
  std::size_t bytes = (scalars.size() + 1) * sizeof(double);
  for (std::size_t i = 0; i < channels.size(); ++i) {
    bytes += encoded_bytes[i] > 0 ? encoded_bytes[i] : channels[i].size() * sizeof(float);
  }
  return bytes;
}

Sum::Sum(const Schema& schema) : schema_(schema), scalars_(schema.scalars.size()) {
  for (const auto& spec : schema.channels) {
    times_.push_back(spec.times.empty() ? channels_.size() : schema.channel(spec.times));
    channels_.emplace_back(spec.weighting == Weighting::each ? 0 : spec.size, 0.0);
  }
}

void Sum::check(const Schema& schema, const Update& update) {
  if (!(update.weight > 0.0) || !std::isfinite(update.weight)) {
    fail<RefusedUpdate>("its weight is {}; expected a number above 0", update.weight);
  }
  if (update.channels.size() != schema.channels.size() || update.scalars.size() != schema.scalars.size()) {
    fail<RefusedUpdate>("it has {} channels and {} scalars; this round expects {} and {}", update.channels.size(),
                        update.scalars.size(), schema.channels.size(), schema.scalars.size());
  }
  for (std::size_t c = 0; c < schema.channels.size(); ++c) {
    const auto& spec = schema.channels[c];
    const auto& values = update.channels[c];
    if (values.size() != spec.size) {
      fail<RefusedUpdate>("channel '{}' has {} numbers; this round expects {}", spec.name, values.size(), spec.size);
    }
    if (!all_finite(values)) {
      const std::size_t i = first_not_finite(values);
      fail<RefusedUpdate>("channel '{}' is not finite: number {} is {}", spec.name, i, values[i]);
    }
    check_bound(spec, values);
  }
  for (std::size_t s = 0; s < schema.scalars.size(); ++s) {
    if (!std::isfinite(update.scalars[s])) {
      fail<RefusedUpdate>("scalar '{}' is {}; expected a finite number", schema.scalars[s].name, update.scalars[s]);
    }
  }
}

void Sum::add(const Update& update) {
  keep_single(update);
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    if (schema_.channels[c].weighting == Weighting::each) continue;
    const double factor = schema_.channels[c].weighting == Weighting::by_weight ? update.weight : 1.0;
    if (times_[c] == c) {
      add_scaled(channels_[c], factor, update.channels[c]);
    } else {
      add_product(channels_[c], factor, update.channels[times_[c]], update.channels[c]);
    }
  }
  for (std::size_t s = 0; s < scalars_.size(); ++s) {
    const double factor = schema_.scalars[s].weighting == Weighting::by_weight ? update.weight : 1.0;
    scalars_[s] += factor * update.scalars[s];
  }
  ++count_;
  weight_ += update.weight;
  training_.merge(update.training);
  wire_bytes_ += update.wire_bytes();
}

void Sum::keep_single(const Update& update) {
  const auto is_each = [](const ChannelSpec& spec) { return spec.weighting == Weighting::each; };
  if (std::ranges::none_of(schema_.channels, is_each)) return;
  Single single{.client = update.client, .weight = update.weight, .channels = {}};
  single.channels.resize(channels_.size());
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    if (is_each(schema_.channels[c])) single.channels[c] = update.channels[c];
  }
  singles_.push_back(std::move(single));
}

void Sum::merge(Sum& other) {
  assert(channels_.size() == other.channels_.size() && scalars_.size() == other.scalars_.size());
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    const double* from = other.channels_[c].data();
    double* to = channels_[c].data();
    const std::size_t size = channels_[c].size();
    for (std::size_t i = 0; i < size; ++i) to[i] += from[i];
  }
  for (std::size_t s = 0; s < scalars_.size(); ++s) scalars_[s] += other.scalars_[s];
  count_ += other.count_;
  weight_ += other.weight_;
  training_.merge(other.training_);
  wire_bytes_ += other.wire_bytes_;
  std::ranges::move(other.singles_, std::back_inserter(singles_));
  other.singles_.clear();
}

void Sum::clear() {
  for (auto& channel : channels_) std::fill(channel.begin(), channel.end(), 0.0);
  std::fill(scalars_.begin(), scalars_.end(), 0.0);
  count_ = 0;
  weight_ = 0.0;
  training_ = {};
  wire_bytes_ = 0;
  singles_.clear();
}

std::span<const double> Sum::channel(const std::string& name) const {
  return channels_[schema_.channel(name)];
}
std::span<double> Sum::edit(const std::string& name) {
  return channels_[schema_.channel(name)];
}
double Sum::scalar(const std::string& name) const {
  return scalars_[schema_.scalar(name)];
}

std::span<const double> Sum::take_mean(const std::string& name) {
  const std::size_t c = schema_.channel(name);
  if (times_[c] != c) {
    const auto& total = channels_[times_[c]];
    for (std::size_t i = 0; i < total.size(); ++i) channels_[c][i] /= total[i];
    return channels_[c];
  }
  const double total = schema_.channels[c].weighting == Weighting::by_weight ? weight_ : static_cast<double>(count_);
  for (auto& value : channels_[c]) value /= total;
  return channels_[c];
}

}  // namespace parley
