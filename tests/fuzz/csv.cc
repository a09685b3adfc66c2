#include "parley/data/read/csv.h"
#include "fuzz.h"

namespace {

void read_table(std::string_view text) {
  parley::CsvColumns columns;
  columns.label = "label";
  parley::CsvReading reading;
  reading.missing = parley::CsvReading::Missing::mean;
  const auto table = parley::parse_csv(text, columns, parley::learn_csv(text, columns, reading, "input"), "input");
  parley::number_labels(table, "input", {}, "test");
}

}  // namespace

PARLEY_FUZZ_TARGET(read_table)
