#include "fuzz.h"
#include "parley/base/files.h"
#include "parley/base/random.h"
#include "parley/base/temp_folder.h"
#include "parley/data/deal/deal.h"

#include <fstream>

PARLEY_FUZZ_TARGET([](std::string_view text) {
  static const parley::TempFolder folder;
  static const parley::Dataset data = [] {
    parley::Dataset rows;
    rows.shape = {2};
    rows.values = std::vector<float>(20);
    rows.labels.resize(10);
    rows.classes = 1;
    return rows;
  }();
  const std::string file = (folder / "p.json").string();
  std::ofstream(file, std::ios::binary) << text;
  parley::Options options("partition");
  options.set("path", file);
  options.set("allow_shared", false);
  parley::Stream stream(1, "unused");
  for (const auto& rows : parley::deal::from_file(data, options, stream).clients) {
    for (const auto row : rows) {
      if (row >= data.size()) __builtin_trap();
    }
  }
})
