// What a column of text holds, learned field by field, and its fields as numbers.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "parley/data/read/csv.h"

namespace parley {

// Empty, or one of the marks by which tables say so: NA, N/A, NaN, null, None, ?
bool is_missing(std::string_view field);
// With a decimal comma where the separator is another.
std::optional<float> csv_number(std::string_view field, char separator);
// Days since 1970 of 2026-11-17, with or without a time of day (T or blank, hours and minutes, seconds, Z).
std::optional<float> csv_date(std::string_view field);

class LearnedColumn {
 public:
  void see(std::string_view field, std::size_t line, char separator);
  // `name` of the file, number (from 0) and name of the column stand in messages. Throws InputError.
  CsvCode code(const std::string& name, std::size_t index, const std::string& column) const;

 private:
  static constexpr std::size_t kMostCategories = 100;

  std::size_t seen_ = 0, numbers_ = 0, booleans_ = 0, dates_ = 0;
  double sum_ = 0.0;                                        // of numbers, booleans or dates
  std::map<std::string, std::size_t, std::less<>> counts_;  // of texts; not of all when there are too many
  std::string first_text_;                                  // that is no number
  std::size_t text_line_ = 0;
};

// The fields of one column by its code; nothing for a category that was not learned.
std::optional<float> decode(const CsvCode& code, std::string_view field, char separator);

}  // namespace parley
