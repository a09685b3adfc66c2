#include "parley/data/read/idx.h"
#include "fuzz.h"
#include "parley/data/read/bytes.h"

// Plain, and as what a gzip file unpacks to.
PARLEY_FUZZ_TARGET([](std::string_view text) {
  const bool packed = text.starts_with("\x1f\x8b");
  const auto declared = [](std::string_view) -> std::optional<std::size_t> { return 1 << 16; };
  parley::parse_idx(packed ? parley::unpack_gzip(text, "input", declared) : std::string(text), "input");
})
