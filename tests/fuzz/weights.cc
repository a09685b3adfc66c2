#include <span>

#include "fuzz.h"
#include "parley/wire/fuzz.h"

PARLEY_FUZZ_TARGET([](std::string_view text) { parley::wire::feed_weights(std::as_bytes(std::span(text))); })
