#include "parley/data/read/csv.h"
#include "fuzz.h"

PARLEY_FUZZ_TARGET([](std::string_view text) {
  const parley::CsvColumns columns{.label = "label", .user = {}, .targets = {}, .ignored = {}};
  const auto coding = parley::learn_csv(text, columns, {.missing = parley::CsvReading::Missing::mean}, "input");
  const auto table = parley::parse_csv(text, columns, coding, "input");
  parley::number_labels(table, "input", {}, "test");
})
