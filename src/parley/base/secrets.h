// Randomness that no experiment file determines: what privacy rests on must not be drawn from a published seed.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace parley {

// Fills all of the bytes. Tests put a known sequence in its place.
using Secrets = std::function<void(std::span<std::byte> bytes)>;

// The operating system's. Throws RunError when that has none to give.
void system_secrets(std::span<std::byte> bytes);

}  // namespace parley
