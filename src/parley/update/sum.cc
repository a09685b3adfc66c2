#include "parley/update/sum.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "parley/base/errors.h"

namespace parley {
namespace {

constexpr std::uint32_t kMagic = 0x314d5350;  // "PSM1": the format and its version

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

// Doubles as they stand in a message, wherever that is in memory.
void add_encoded(std::span<double> sum, std::span<const std::byte> encoded) {
  double* to = sum.data();
  const std::byte* from = encoded.data();
  for (std::size_t i = 0; i < sum.size(); ++i) {
    double value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    to[i] += value;
  }
}

bool is_each(const ChannelSpec& spec) {
  return spec.weighting == Weighting::each;
}

}  // namespace

Sum::Sum(SharedSchema schema) : schema_(std::move(schema)), scalars_(schema_->scalars.size()) {
  for (const auto& spec : schema_->channels) {
    times_.push_back(spec.times.empty() ? channels_.size() : schema_->channel(spec.times));
    channels_.emplace_back(is_each(spec) ? 0 : spec.size(), 0.0);
  }
  taken_.resize(channels_.size());
}

void Sum::add(const Update& update) {
  keep_single(update);
  const auto& sent = update.channels();
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    if (is_each(schema_->channels[c])) continue;
    const double factor = schema_->channels[c].weighting == Weighting::by_weight ? update.weight : 1.0;
    if (times_[c] == c) {
      add_scaled(channels_[c], factor, sent[c]);
    } else {
      add_product(channels_[c], factor, sent[times_[c]], sent[c]);
    }
  }
  for (std::size_t s = 0; s < scalars_.size(); ++s) {
    const double factor = schema_->scalars[s].weighting == Weighting::by_weight ? update.weight : 1.0;
    scalars_[s] += factor * update.scalars()[s];
  }
  ++count_;
  weight_ += update.weight;
  training_.merge(update.training);
  wire_bytes_ += update.wire_bytes();
}

void Sum::keep_single(const Update& update) {
  if (std::ranges::none_of(schema_->channels, is_each)) return;
  Single single{.client = update.client, .weight = update.weight, .schema = schema_, .channels = {}};
  single.channels.resize(channels_.size());
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    if (is_each(schema_->channels[c])) single.channels[c] = update.channels()[c];
  }
  singles_.push_back(std::move(single));
}

void Sum::merge(Sum& other) {
  if (schema_ != other.schema_) throw std::logic_error("merged two sums of different rounds");
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

std::size_t Sum::summed(std::string_view channel) const {
  const std::size_t c = schema_->channel(channel);
  if (is_each(schema_->channels[c])) {
    throw std::logic_error("channel '" + std::string(channel) + "' is kept for each client and has no sum");
  }
  if (taken_[c]) throw std::logic_error("channel '" + std::string(channel) + "' was taken out of the sum before");
  return c;
}

std::span<const double> Sum::total(std::string_view channel) const {
  return channels_[summed(channel)];
}

std::span<double> Sum::edit(std::string_view channel) {
  return channels_[summed(channel)];
}

double Sum::scalar(std::string_view name) const {
  return scalars_[schema_->scalar(name)];
}

FlatDouble Sum::take_total(std::string_view channel) {
  const std::size_t c = summed(channel);
  taken_[c] = true;
  return std::exchange(channels_[c], {});
}

FlatDouble Sum::take_mean(std::string_view channel) {
  const std::size_t c = summed(channel);
  if (times_[c] != c) {
    const auto weights = total(schema_->channels[c].times);
    FlatDouble mean = take_total(channel);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] /= weights[i];
    return mean;
  }
  FlatDouble mean = take_total(channel);
  const double total = schema_->channels[c].weighting == Weighting::by_weight ? weight_ : static_cast<double>(count_);
  for (auto& value : mean) value /= total;
  return mean;
}

void Sum::encode(ByteBuffer& to) const {
  put(to, kMagic);
  put(to, static_cast<std::uint64_t>(count_));
  put(to, weight_);
  put(to, training_.loss_sum);
  put(to, static_cast<std::uint64_t>(training_.examples));
  put(to, static_cast<std::uint64_t>(training_.steps));
  put(to, static_cast<std::uint64_t>(wire_bytes_));
  put_all(to, scalars_);
  for (std::size_t c = 0; c < channels_.size(); ++c) put_all(to, channels_[c]);
  put(to, static_cast<std::uint64_t>(singles_.size()));
  for (const auto& single : singles_) {
    put(to, static_cast<std::uint64_t>(single.client));
    put(to, single.weight);
    for (const auto& values : single.channels) put_all(to, values);
  }
}

Bytes Sum::encode() const {
  ByteBuffer to;
  encode(to);
  return std::move(to.bytes);
}

void Sum::merge(std::span<const std::byte> encoded) {
  ByteReader from(encoded);
  if (from.take<std::uint32_t>() != kMagic) fail("this is not a sum of a version that this program knows");
  const auto count = from.take<std::uint64_t>();
  const auto weight = from.take<double>();
  const auto loss_sum = from.take<double>();
  const auto examples = from.take<std::uint64_t>();
  const auto steps = from.take<std::uint64_t>();
  const auto wire_bytes = from.take<std::uint64_t>();
  const auto scalars = from.raw(scalars_.size() * sizeof(double));
  std::vector<std::span<const std::byte>> channels;
  for (const auto& channel : channels_) channels.push_back(from.raw(channel.size() * sizeof(double)));
  std::vector<Single> singles;
  for (auto left = from.take<std::uint64_t>(); left > 0; --left) singles.push_back(take_single(from));
  from.finish();
  // All of it fits: from here on nothing can fail.
  add_encoded(scalars_, scalars);
  for (std::size_t c = 0; c < channels_.size(); ++c) add_encoded(channels_[c], channels[c]);
  count_ += count;
  weight_ += weight;
  training_.merge({.loss_sum = loss_sum, .examples = examples, .steps = steps});
  wire_bytes_ += wire_bytes;
  std::ranges::move(singles, std::back_inserter(singles_));
}

Single Sum::take_single(ByteReader& from) const {
  Single single{.client = from.take<std::uint64_t>(), .weight = from.take<double>(), .schema = schema_, .channels = {}};
  for (const auto& spec : schema_->channels) {
    Flat& values = single.channels.emplace_back();
    if (!is_each(spec)) continue;
    if (from.left() / sizeof(float) < spec.size()) fail("channel '{}' of a client is cut off", spec.name);
    values.resize(spec.size());
    from.take_all(std::span(values));
  }
  return single;
}

Sum Sum::decode(std::span<const std::byte> bytes, SharedSchema schema) {
  Sum sum(std::move(schema));
  sum.merge(bytes);
  return sum;
}

}  // namespace parley
