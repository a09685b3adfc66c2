// What clients are sent in a round: a numbered snapshot of the part of the state that they may see.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parley/base/bytes.h"
#include "parley/update/state.h"

namespace parley {

// A cheap handle: copies share the values, which nothing changes any more.
class Broadcast {
 public:
  // A copy of what the state says is broadcast. `number` is what an answer refers to: the round.
  explicit Broadcast(const State& state, std::size_t number = 0);

  std::size_t number() const { return contents_->number; }
  // Throws std::logic_error for a channel or scalar that is not sent, as scalar() does.
  std::span<const float> at(std::string_view name) const;
  double scalar(std::string_view name) const;
  // The same with other values for one channel, which must outlive it: what a client sees that keeps parts of the model
  // to itself.
  Broadcast with(std::string_view name, std::span<const float> values) const;

  // As it goes over the wire, and how many bytes that is.
  Bytes encode() const;
  std::size_t wire_bytes() const;
  // Throws InputError for bytes that are not a broadcast.
  static Broadcast decode(std::span<const std::byte> bytes);

 private:
  struct Contents {
    std::size_t number = 0;
    std::vector<std::pair<std::string, Flat>> channels;
    std::map<std::string, double, std::less<>> scalars;
  };

  explicit Broadcast(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}
  template <class Sink>
  void write(Sink& sink) const;

  std::shared_ptr<const Contents> contents_;
  std::string_view replaced_;
  std::span<const float> replacement_;
};

}  // namespace parley
