// The records of values that are separated by commas or another character, one after the other; fields may be quoted
// ("a, ""b""").
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace parley {

// Throws InputError "name:line:field: …" (an open quote, text behind a quoted field). Text and name must outlive it.
class CsvRecords {
 public:
  CsvRecords(std::string_view text, const std::string& name, char separator = ',');

  // The next record, or false at the end; empty lines are skipped. The fields point into the text, or into this object,
  // until the next call.
  bool next(std::vector<std::string_view>& fields);
  // Where the record that was handed out begins, from 1.
  std::size_t line() const { return line_; }

 private:
  std::string_view plain();
  std::string_view quoted(std::size_t column);
  void skip_line_end();

  std::string_view text_;
  const std::string& name_;
  std::string ends_;  // of a plain field: the separator and line ends
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  std::size_t next_line_ = 1;
  std::deque<std::string> unquoted_;
};

}  // namespace parley
