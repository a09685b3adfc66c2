#include "parley/data/read/leaf.h"
#include "fuzz.h"

PARLEY_FUZZ_TARGET([](std::string_view text) {
  parley::LeafTable table;
  parley::append_leaf(text, "input", table);
  if (table.values.size() != table.labels.size() * table.features) __builtin_trap();
})
