// Comma-separated values with a header line; fields may be quoted ("a, ""b""").
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace parley {

// Which columns mean what. Every other column is a numeric feature, unless it is ignored.
struct CsvColumns {
  std::string label;                 // "" for none
  std::string user;                  // "" for none
  std::vector<std::string> targets;  // regression
  std::vector<std::string> ignored;
};

struct CsvTable {
  std::vector<std::string> features;  // column names
  std::vector<float> values;          // rows × features
  std::vector<float> targets;         // rows × columns.targets
  std::vector<std::string> labels;    // as they stand in the file
  std::vector<std::string> users;
  std::size_t rows = 0;
};

// Throws InputError "file:line:column: …" (a missing column, a bad number, a short row, an open
// quote).
CsvTable parse_csv(std::string_view text, const CsvColumns& columns, const std::string& name);
CsvTable read_csv(const std::filesystem::path& path, const CsvColumns& columns);

// Labels as classes. When the first training label is a whole number all must be, and stay what
// they are; otherwise they are names, numbered in sorted order. `train_name` and `test_name` stand
// in messages.
struct CsvClasses {
  std::vector<std::int32_t> train;
  std::vector<std::int32_t> test;
  std::vector<std::string> names;  // empty for whole numbers
};
CsvClasses number_labels(const std::vector<std::string>& train, const std::string& train_name,
                         const std::vector<std::string>& test, const std::string& test_name);

}  // namespace parley
