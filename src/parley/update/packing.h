// How the numbers of a channel travel when four bytes each would be waste. Whoever makes a channel small (a method, a
// stage) packs it at once; unpack() gives back the very same floats, bit for bit.
#pragma once

#include <cstdint>
#include <span>

#include "parley/base/bytes.h"
#include "parley/update/broadcast.h"
#include "parley/update/schema.h"

namespace parley {

// The numbers are permanent: they are on the wire.
enum class Packing : std::uint8_t {
  plain = 0,     // four bytes a float
  constant = 1,  // one float, the same for all
  sparse = 2,    // in each segment one value for most, and the others with their places
  omitted = 3,   // without some ranges, which are those of the broadcast (or 0, where the channel is a difference)
  levels = 4,    // whole multiples of a step, a few bits each, from the broadcast; what is measured follows as floats
  own = 5,       // the method's own; ChannelSpec::unpack reads it
};

struct OmittedRange {
  std::size_t offset, size;
};

struct Packed {
  Packing how = Packing::plain;
  Bytes bytes = {};
  std::vector<OmittedRange> omitted = {};  // of Packing::omitted, whose bytes are made from the channel when it is sent
};

Packed pack_constant(float value);

// A stretch of a channel in which most numbers are `rest`.
struct SparseSegment {
  std::size_t size;
  float rest;
};
// The segments cover all values. Places go as indices or as one bit an element, whichever is less; where neither pays,
// the segment goes plain.
Packed pack_sparse(std::span<const float> values, std::span<const SparseSegment> segments);

// Ranges in order, apart from one another.
Packed pack_omitted(std::vector<OmittedRange> ranges);
template <class Sink>
void put_without(Sink& sink, std::span<const float> values, std::span<const OmittedRange> ranges) {
  put(sink, static_cast<std::uint32_t>(ranges.size()));
  for (const auto& range : ranges) {
    put(sink, static_cast<std::uint64_t>(range.offset));
    put(sink, static_cast<std::uint64_t>(range.size));
  }
  std::size_t at = 0;
  for (const auto& range : ranges) {
    put_all(sink, values.subspan(at, range.offset - at));
    at = range.offset + range.size;
  }
  put_all(sink, values.subspan(at));
}

// Number i is step·codes[i], added to the broadcast's where the channel is relative to it. A code takes `bits` bits,
// 2 to 16, its sign included.
Packed pack_levels(std::size_t bits, float step, std::span<const std::int16_t> codes, std::span<const float> measured);

// Fills all of `values`, of the spec's size. Throws InputError on bytes that no pack function makes.
void unpack(const ChannelSpec& spec, Packing how, std::span<const std::byte> packed, const Broadcast& broadcast,
            std::span<float> values);

}  // namespace parley
