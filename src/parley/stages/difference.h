// What a client changed: each channel's difference from the broadcast channel it is relative to.
#pragma once

#include <span>

#include "parley/update/state.h"
#include "parley/update/update.h"

namespace parley {

// Calls change(channel index, difference) for every channel and writes the changed difference back.
template <class Change>
void change_differences(const Schema& schema, const Broadcast& broadcast, Update& update, Change change) {
  Flat scratch;
  for (std::size_t c = 0; c < schema.channels.size(); ++c) {
    auto& values = update.channels[c];
    const auto& reference = schema.channels[c].relative_to;
    if (reference.empty()) {
      change(c, std::span<float>(values));
      continue;
    }
    const auto base = broadcast.at(reference);
    scratch.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) scratch[i] = values[i] - base[i];
    change(c, std::span<float>(scratch));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = base[i] + scratch[i];
  }
}

// The same, read only.
template <class Visit>
void for_each_difference(const Schema& schema, const Broadcast& broadcast, const Update& update, Visit visit) {
  Flat scratch;
  for (std::size_t c = 0; c < schema.channels.size(); ++c) {
    const auto& values = update.channels[c];
    const auto& reference = schema.channels[c].relative_to;
    if (reference.empty()) {
      visit(c, std::span<const float>(values));
      continue;
    }
    const auto base = broadcast.at(reference);
    scratch.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) scratch[i] = values[i] - base[i];
    visit(c, std::span<const float>(scratch));
  }
}

}  // namespace parley
