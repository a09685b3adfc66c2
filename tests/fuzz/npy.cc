#include "parley/data/read/npy.h"
#include "fuzz.h"

PARLEY_FUZZ_TARGET([](std::string_view text) { parley::parse_npy(text, "input"); })
