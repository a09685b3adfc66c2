#include "parley/update/broadcast.h"

#include <cassert>
#include <ranges>

#include "parley/base/errors.h"

namespace parley {
namespace {

constexpr std::uint32_t kMagic = 0x31424350;  // "PCB1": the format and its version

template <class Names>
[[noreturn]] void not_sent(const char* what, std::string_view name, const Names& names) {
  throw std::logic_error(unknown_name(what, name, {names.begin(), names.end()}));
}

}  // namespace

Broadcast::Broadcast(const State& state, std::size_t number) {
  auto contents = std::make_shared<Contents>();
  contents->number = number;
  for (const auto& channel : state.channels()) {
    if (state.sends(channel)) contents->channels.emplace_back(channel.name, channel.values);
  }
  for (const auto& [name, scalar] : state.scalars()) {
    if (scalar.broadcast) contents->scalars.emplace(name, scalar.value);
  }
  contents_ = std::move(contents);
}

std::span<const float> Broadcast::at(std::string_view name) const {
  if (name == replaced_) return replacement_;
  for (const auto& [key, values] : contents_->channels) {
    if (key == name) return values;
  }
  not_sent("channel of the broadcast", name, std::views::keys(contents_->channels));
}

double Broadcast::scalar(std::string_view name) const {
  const auto found = contents_->scalars.find(name);
  if (found == contents_->scalars.end())
    not_sent("scalar of the broadcast", name, std::views::keys(contents_->scalars));
  return found->second;
}

Broadcast Broadcast::with(std::string_view name, std::span<const float> values) const {
  assert(values.size() == at(name).size() && replaced_.empty());
  Broadcast changed = *this;
  changed.replaced_ = name;
  changed.replacement_ = values;
  return changed;
}

template <class Sink>
void Broadcast::write(Sink& sink) const {
  put(sink, kMagic);
  put(sink, static_cast<std::uint64_t>(contents_->number));
  put(sink, static_cast<std::uint32_t>(contents_->channels.size()));
  for (const auto& [name, values] : contents_->channels) {
    put_text(sink, name);
    put(sink, static_cast<std::uint64_t>(values.size()));
    put_all(sink, values);
  }
  put(sink, static_cast<std::uint32_t>(contents_->scalars.size()));
  for (const auto& [name, value] : contents_->scalars) {
    put_text(sink, name);
    put(sink, value);
  }
}

Bytes Broadcast::encode() const {
  ByteBuffer buffer;
  buffer.bytes.reserve(wire_bytes());
  write(buffer);
  return std::move(buffer.bytes);
}

std::size_t Broadcast::wire_bytes() const {
  ByteCounter counter;
  write(counter);
  return counter.size;
}

Broadcast Broadcast::decode(std::span<const std::byte> bytes) {
  ByteReader from(bytes);
  if (from.take<std::uint32_t>() != kMagic) fail("this is not a broadcast of a version that this program knows");
  auto contents = std::make_shared<Contents>();
  contents->number = from.take<std::uint64_t>();
  for (auto left = from.take<std::uint32_t>(); left > 0; --left) {
    std::string name = from.take_text();
    const auto size = from.take<std::uint64_t>();
    if (size > from.left() / sizeof(float)) fail("channel '{}' of the broadcast is cut off", name);
    Flat& values = contents->channels.emplace_back(std::move(name), Flat(size)).second;
    from.take_all(std::span(values));
  }
  for (auto left = from.take<std::uint32_t>(); left > 0; --left) {
    std::string name = from.take_text();
    contents->scalars[std::move(name)] = from.take<double>();
  }
  from.finish();
  return Broadcast(std::shared_ptr<const Contents>(std::move(contents)));
}

}  // namespace parley
