#include "parley/update/packing.h"

#include <algorithm>
#include <bit>

#include "parley/base/errors.h"
#include "parley/update/changes.h"

namespace parley {
namespace {

// The last two are of a changed copy, whose other numbers are the broadcast's.
enum class Places : std::uint8_t { all = 0, indices = 1, bits = 2, changed_indices = 3, changed_bits = 4 };

bool as_indices(Places places) {
  return places == Places::indices || places == Places::changed_indices;
}

// By their bits, so that −0 and 0 stay what they are.
bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

Places cheapest_places(std::size_t kept, std::size_t size) {
  const std::size_t by_indices = kept * (sizeof(std::uint32_t) + sizeof(float));
  const std::size_t by_bits = (size + 7) / 8 + kept * sizeof(float);
  if (std::min(by_indices, by_bits) >= size * sizeof(float)) return Places::all;
  return by_indices < by_bits ? Places::indices : Places::bits;
}

// The places where `differs` is true.
template <class Differs>
std::vector<std::uint32_t> places_where(std::size_t size, Differs differs) {
  std::vector<std::uint32_t> places;
  for (std::size_t i = 0; i < size; ++i) {
    if (differs(i)) places.push_back(static_cast<std::uint32_t>(i));
  }
  return places;
}

void put_kept(ByteBuffer& to, std::span<const float> values, std::span<const std::uint32_t> kept, Places places) {
  put(to, static_cast<std::uint32_t>(kept.size()));
  if (as_indices(places)) {
    put_all(to, kept);
  } else {
    std::size_t next = 0;
    for (std::size_t byte = 0; byte < (values.size() + 7) / 8; ++byte) {
      unsigned marks = 0;
      for (; next < kept.size() && kept[next] / 8 == byte; ++next) marks |= 1u << (kept[next] % 8);
      put(to, static_cast<std::uint8_t>(marks));
    }
  }
  for (const auto i : kept) put(to, values[i]);
}

void put_segment(ByteBuffer& to, std::span<const float> values, float rest) {
  const auto kept = places_where(values.size(), [&](std::size_t i) { return !same(values[i], rest); });
  const Places places = cheapest_places(kept.size(), values.size());
  put(to, static_cast<std::uint8_t>(places));
  if (places == Places::all) return put_all(to, values);
  put(to, rest);
  put_kept(to, values, kept, places);
}

// The places of a segment's own values, in order and within it.
std::vector<std::uint32_t> take_places(ByteReader& from, Places places, std::size_t kept, std::size_t size) {
  std::vector<std::uint32_t> where;
  if (as_indices(places)) {
    where.resize(kept);
    from.take_all(std::span(where));
    if (!std::ranges::is_sorted(where, std::less_equal<>()) || (kept > 0 && where.back() >= size)) {
      fail("a sparse channel names places out of order or outside of it");
    }
    return where;
  }
  const auto bits = from.raw((size + 7) / 8);
  for (std::size_t i = 0; i < size; ++i) {
    if ((std::to_integer<unsigned>(bits[i / 8]) >> (i % 8)) & 1u) where.push_back(static_cast<std::uint32_t>(i));
  }
  if (where.size() != kept) fail("a sparse channel announces {} values and marks {} places", kept, where.size());
  return where;
}

// What a client did not touch.
void fill_from(std::span<const float> base, std::size_t offset, std::span<float> values) {
  if (base.empty()) {
    std::ranges::fill(values, 0.0f);
  } else {
    std::ranges::copy(base.subspan(offset, values.size()), values.begin());
  }
}

// `offset`: of the segment in its channel.
void take_segment(ByteReader& from, std::span<const float> base, std::size_t offset, std::span<float> values) {
  const auto places = static_cast<Places>(from.take<std::uint8_t>());
  switch (places) {
    case Places::all: return from.take_all(values);
    case Places::indices:
    case Places::bits: std::ranges::fill(values, from.take<float>()); break;
    case Places::changed_indices:
    case Places::changed_bits: fill_from(base, offset, values); break;
    default: fail("a sparse channel marks its places in an unknown way");
  }
  const auto kept = from.take<std::uint32_t>();
  if (kept > values.size()) fail("a sparse channel announces {} values for {} places", kept, values.size());
  for (const auto i : take_places(from, places, kept, values.size())) values[i] = from.take<float>();
}

void unpack_sparse(ByteReader& from, std::span<const float> base, std::span<float> values) {
  const auto segments = from.take<std::uint32_t>();
  const std::size_t all = values.size();
  for (std::uint32_t s = 0; s < segments; ++s) {
    const auto size = from.take<std::uint64_t>();
    if (size > values.size()) fail("a sparse channel is longer than the {} numbers this round expects", values.size());
    take_segment(from, base, all - values.size(), values.first(size));
    values = values.subspan(size);
  }
  if (!values.empty()) fail("a sparse channel ends {} numbers early", values.size());
}

void unpack_omitted(ByteReader& from, std::span<const float> base, std::span<float> values) {
  const auto ranges = from.take<std::uint32_t>();
  std::vector<OmittedRange> omitted;
  for (std::uint32_t r = 0; r < ranges; ++r) {
    const auto offset = from.take<std::uint64_t>(), size = from.take<std::uint64_t>();
    const std::size_t end = omitted.empty() ? 0 : omitted.back().offset + omitted.back().size;
    if (offset < end || offset > values.size() || size > values.size() - offset) {
      fail("a channel omits what is not in it");
    }
    omitted.push_back({offset, size});
  }
  std::size_t at = 0;
  for (const auto& [offset, size] : omitted) {
    from.take_all(values.subspan(at, offset - at));
    fill_from(base, offset, values.subspan(offset, size));
    at = offset + size;
  }
  from.take_all(values.subspan(at));
}

void unpack_levels(ByteReader& from, std::span<const float> base, std::size_t measured, std::span<float> values) {
  const auto bits = from.take<std::uint8_t>();
  if (bits < 2 || bits > 16) fail("a quantised channel has {} bits per number; expected 2 to 16", bits);
  const auto step = from.take<float>();
  const std::size_t learned = values.size() - measured;
  const auto packed = from.raw((learned * bits + 7) / 8);
  const int most = (1 << (bits - 1)) - 1;
  std::uint32_t window = 0;
  unsigned filled = 0;
  std::size_t next = 0;
  for (std::size_t i = 0; i < learned; ++i) {
    while (filled < bits) {
      window |= std::to_integer<std::uint32_t>(packed[next++]) << filled;
      filled += 8;
    }
    const int code = static_cast<int>(window & ((1u << bits) - 1u)) - most;
    window >>= bits;
    filled -= bits;
    const float difference = step * static_cast<float>(code);
    values[i] = base.empty() ? difference : base[i] + difference;
  }
  from.take_all(values.subspan(learned));
}

}  // namespace

Packed pack_constant(float value) {
  ByteBuffer to;
  put(to, value);
  return {.how = Packing::constant, .bytes = std::move(to.bytes)};
}

Packed pack_sparse(std::span<const float> values, std::span<const SparseSegment> segments) {
  ByteBuffer to;
  put(to, static_cast<std::uint32_t>(segments.size()));
  for (const auto& segment : segments) {
    put(to, static_cast<std::uint64_t>(segment.size));
    put_segment(to, values.first(segment.size), segment.rest);
    values = values.subspan(segment.size);
  }
  assert(values.empty());
  return {.how = Packing::sparse, .bytes = std::move(to.bytes)};
}

Packed pack_changes(std::span<const float> values, std::span<const float> base) {
  assert(values.size() == base.size());
  const auto kept = places_where(values.size(), [&](std::size_t i) { return !same(values[i], base[i]); });
  const Places cheapest = cheapest_places(kept.size(), values.size());
  ByteBuffer to;
  put(to, std::uint32_t{1});
  put(to, static_cast<std::uint64_t>(values.size()));
  if (cheapest == Places::all) {
    put(to, static_cast<std::uint8_t>(cheapest));
    put_all(to, values);
  } else {
    const Places places = as_indices(cheapest) ? Places::changed_indices : Places::changed_bits;
    put(to, static_cast<std::uint8_t>(places));
    put_kept(to, values, kept, places);
  }
  return {.how = Packing::sparse, .bytes = std::move(to.bytes)};
}

Packed pack_omitted(std::vector<OmittedRange> ranges) {
  return {.how = Packing::omitted, .omitted = std::move(ranges)};
}

Packed pack_levels(std::size_t bits, float step, std::span<const std::int16_t> codes, std::span<const float> measured) {
  ByteBuffer to;
  put(to, static_cast<std::uint8_t>(bits));
  put(to, step);
  const int most = (1 << (bits - 1)) - 1;
  std::uint32_t window = 0;
  unsigned filled = 0;
  for (const std::int16_t code : codes) {
    window |= static_cast<std::uint32_t>(code + most) << filled;
    filled += static_cast<unsigned>(bits);
    while (filled >= 8) {
      put(to, static_cast<std::uint8_t>(window & 0xffu));
      window >>= 8;
      filled -= 8;
    }
  }
  if (filled > 0) put(to, static_cast<std::uint8_t>(window & 0xffu));
  put_all(to, measured);
  return {.how = Packing::levels, .bytes = std::move(to.bytes)};
}

void unpack(const ChannelSpec& spec, Packing how, std::span<const std::byte> packed, const Broadcast& broadcast,
            std::span<float> values) {
  assert(values.size() == spec.size());
  const auto base = spec.relative_to.empty() ? std::span<const float>() : broadcast.at(spec.relative_to);
  ByteReader from(packed);
  switch (how) {
    case Packing::plain: from.take_all(values); break;
    case Packing::constant: std::ranges::fill(values, from.take<float>()); break;
    case Packing::sparse: unpack_sparse(from, base, values); break;
    case Packing::omitted: unpack_omitted(from, base, values); break;
    case Packing::levels: unpack_levels(from, base, spec.measured(), values); break;
    case Packing::own:
      if (!spec.unpack) fail("channel '{}' is packed in a way of the method's own, and it has none", spec.name);
      return spec.unpack(packed, values);
    default: fail("channel '{}' is packed in way {}, which is not known", spec.name, static_cast<int>(how));
  }
  from.finish();
}

}  // namespace parley
