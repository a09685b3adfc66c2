// Tables of text with a header line, as people have them: numbers, yes and no, dates, names; fields may be quoted
// ("a, ""b""").
//
// A table is read twice. The first pass over the training file learns what each feature column holds; the second, and
// any over a test file, turns it into numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace parley {

// Which columns mean what. Every other column is a feature, unless it is ignored.
struct CsvColumns {
  std::string label;                 // "" for none
  std::string user;                  // "" for none
  std::vector<std::string> targets;  // regression
  std::vector<std::string> ignored;
};

struct CsvReading {
  enum class Categories { one_hot, codes };
  enum class Missing { refuse, mean, drop };
  char separator = 0;  // 0: the one that the header has most of
  Categories categories = Categories::one_hot;
  Missing missing = Missing::refuse;
};

// How one feature column becomes numbers.
struct CsvCode {
  enum class Kind {
    number,
    boolean,  // true, yes and so on: 1; false, no: 0
    date,     // 2026-11-17, 2026-11-17 08:30: days since 1970
    category
  };
  Kind kind = Kind::number;
  std::map<std::string, std::size_t, std::less<>> categories;  // numbered in sorted order
  float instead = 0.0f;  // of what is missing: the mean, or the number of the most common category
};

struct CsvCoding {
  CsvReading reading;  // with the separator that was found
  std::vector<CsvCode> features;
};

struct CsvTable {
  std::vector<std::string> features;  // column names, or "column=category"
  std::vector<float> values;          // rows × features
  std::vector<float> targets;         // rows × columns.targets
  std::vector<std::string> labels;    // as they stand in the file
  std::vector<std::string> users;
  std::vector<std::size_t> lines;  // of each row in the file, from 1
  std::size_t rows = 0;
};

// Both throw InputError "file:line:column: …" (a missing column or value, text among numbers, too many categories, a
// short row, an open quote).
CsvCoding learn_csv(std::string_view text, const CsvColumns& columns, CsvReading reading, const std::string& name);
// A category that the training file does not have is none of the known ones with one_hot, and refused with codes.
CsvTable parse_csv(std::string_view text, const CsvColumns& columns, const CsvCoding& coding, const std::string& name);

// The file's text as UTF-8; UTF-16 is told by the mark that it begins with.
std::string read_csv_text(const std::filesystem::path& path);

// Labels as classes. When the first training label is a whole number all must be, and stay what
// they are; otherwise they are names, numbered in sorted order. The names of the tables stand
// in messages.
struct CsvClasses {
  std::vector<std::int32_t> train;
  std::vector<std::int32_t> test;
  std::vector<std::string> names;  // empty for whole numbers
};
CsvClasses number_labels(const CsvTable& train, const std::string& train_name, const CsvTable& test,
                         const std::string& test_name);

}  // namespace parley
