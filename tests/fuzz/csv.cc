#include "parley/data/read/csv.h"
#include "fuzz.h"

PARLEY_FUZZ_TARGET([](std::string_view text) {
  const auto table = parley::parse_csv(text, {.label = "label"}, "input");
  parley::number_labels(table.labels, "input", {}, "test");
})
