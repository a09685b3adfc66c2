// What a stage looks up in a client's record.
#pragma once

#include <string_view>

#include "parley/update/record.h"

namespace parley {

// What the client kept under this name in an earlier round; null when it kept nothing.
inline const Flat* remembered(const ClientMemory& memory, std::string_view name) {
  if (memory.known() == nullptr) return nullptr;
  const auto found = memory.known()->find(name);
  return found == memory.known()->end() ? nullptr : &found->second;
}

}  // namespace parley
