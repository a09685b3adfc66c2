#pragma once

namespace parley {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace parley
