// Numbers as bytes, little-endian: what the wire and our own files are made of.
//
// A writer is a template over a sink, so that the function that encodes a message also counts it:
//   template <class Sink> void write(const Message& message, Sink& sink);
// with a ByteBuffer it is written, with a ByteCounter only measured.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace parley {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

using Bytes = std::vector<std::byte>;

struct ByteCounter {
  std::size_t size = 0;
  void raw(const void*, std::size_t count) { size += count; }
};

struct ByteBuffer {
  Bytes bytes;
  void raw(const void* from, std::size_t count) {
    const auto* first = static_cast<const std::byte*>(from);
    bytes.insert(bytes.end(), first, first + count);
  }
};

template <class Sink, class Number>
requires std::is_arithmetic_v<Number>
void put(Sink& sink, Number value) {
  sink.raw(&value, sizeof value);
}

template <class Sink, class Numbers>
void put_all(Sink& sink, const Numbers& values) {
  const auto all = std::span(values);
  sink.raw(all.data(), all.size_bytes());
}

template <class Sink>
void put_text(Sink& sink, std::string_view text) {
  put(sink, static_cast<std::uint32_t>(text.size()));
  sink.raw(text.data(), text.size());
}

// Reads what a writer wrote, and trusts none of it: every length is checked before it is used.
//
// Failure:  InputError when the message is shorter or longer than what it says of itself.
class ByteReader {
 public:
  // The bytes must outlive the reader.
  explicit ByteReader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <class Number>
  Number take() {
    Number value;
    std::memcpy(&value, raw(sizeof value).data(), sizeof value);
    return value;
  }
  // Fills all of `values`.
  template <class Number>
  void take_all(std::span<Number> values) {
    const auto from = raw(values.size_bytes());
    if (!values.empty()) std::memcpy(values.data(), from.data(), from.size());
  }
  std::string take_text();
  std::span<const std::byte> raw(std::size_t count);
  std::size_t left() const { return left_.size(); }
  // Throws when something is left.
  void finish() const;

 private:
  std::span<const std::byte> left_;
};

}  // namespace parley
