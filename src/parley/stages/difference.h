// What a client changed: each channel's difference from the broadcast channel it is relative to.
#pragma once

#include <span>
#include <type_traits>

#include "parley/update/state.h"
#include "parley/update/update.h"

namespace parley {

// Calls use(channel index, difference) for what was learned in every channel; what was measured is left out. The
// difference of an update that is not const may be changed; it is then written back.
template <class MaybeConstUpdate, class Use>
void for_each_difference(const Schema& schema, const Broadcast& broadcast, MaybeConstUpdate& update, Use use) {
  constexpr bool read_only = std::is_const_v<MaybeConstUpdate>;
  using Difference = std::span<std::conditional_t<read_only, const float, float>>;
  Flat scratch;
  for (std::size_t c = 0; c < schema.channels.size(); ++c) {
    if (schema.channels[c].statistic) continue;
    const auto values = std::span(update.channels[c]).first(schema.channels[c].size - schema.channels[c].measured);
    const auto& reference = schema.channels[c].relative_to;
    if (reference.empty()) {
      use(c, Difference(values));
      continue;
    }
    const auto base = broadcast.at(reference);
    scratch.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) scratch[i] = values[i] - base[i];
    use(c, Difference(scratch));
    if constexpr (!read_only) {
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = base[i] + scratch[i];
    }
  }
}

}  // namespace parley
