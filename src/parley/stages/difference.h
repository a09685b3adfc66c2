// What a client changed: each channel's difference from the broadcast channel it is relative to.
#pragma once

#include <span>
#include <type_traits>

#include "parley/update/broadcast.h"
#include "parley/update/update.h"

namespace parley {

// Calls use(spec, difference) for what was learned in every channel; what was measured is left out. The
// difference of an update that is not const may be changed; it is then written back, and travels plain unless it is
// packed anew. (What a client omits stays omitted: its difference is zero, and no stage makes something of nothing.)
template <class MaybeConstUpdate, class Use>
void for_each_difference(const Broadcast& broadcast, MaybeConstUpdate& update, Use use) {
  constexpr bool read_only = std::is_const_v<MaybeConstUpdate>;
  using Difference = std::span<std::conditional_t<read_only, const float, float>>;
  Flat scratch;
  for (const ChannelSpec& spec : update.schema().channels) {
    if (spec.statistic) continue;
    if constexpr (!read_only) {
      if (update.packing(spec.name).how != Packing::omitted) update.pack(spec.name, {});
    }
    const auto values = std::span(update[spec.name]).first(spec.size() - spec.measured());
    if (spec.relative_to.empty()) {
      use(spec, Difference(values));
      continue;
    }
    const auto base = broadcast.at(spec.relative_to);
    scratch.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) scratch[i] = values[i] - base[i];
    use(spec, Difference(scratch));
    if constexpr (!read_only) {
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = base[i] + scratch[i];
    }
  }
}

}  // namespace parley
