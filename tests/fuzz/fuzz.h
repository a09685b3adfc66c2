// What every target shares: bytes from libFuzzer, of which a decoder may say that they are wrong, and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "parley/base/errors.h"

namespace parley::fuzz {

// Runs `decode` on the bytes. An Error is an answer; a crash, another exception or a sanitizer's complaint is a find.
template <class Decode>
int survive(const std::uint8_t* bytes, std::size_t size, const Decode& decode) {
  try {
    decode(std::string_view(reinterpret_cast<const char*>(bytes), size));
  } catch (const Error&) {
  }
  return 0;
}

}  // namespace parley::fuzz

#define PARLEY_FUZZ_TARGET(decode)                                                     \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) { \
    return parley::fuzz::survive(bytes, size, decode);                                 \
  }
