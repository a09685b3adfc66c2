#include "parley/data/read/csv_records.h"

#include <algorithm>

#include "parley/base/errors.h"

namespace parley {
namespace {

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

CsvRecords::CsvRecords(std::string_view text, const std::string& name, char separator)
    : text_(text), name_(name), ends_{separator, '\r', '\n'} {
  if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;  // the mark that spreadsheets write
}

bool CsvRecords::next(std::vector<std::string_view>& fields) {
  fields.clear();
  unquoted_.clear();
  while (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '\r')) skip_line_end();
  if (at_ >= text_.size()) return false;
  line_ = next_line_;
  for (;;) {
    fields.push_back(text_[at_] == '"' ? quoted(fields.size() + 1) : plain());
    if (at_ >= text_.size()) return true;
    if (text_[at_] != ends_[0]) {
      skip_line_end();
      return true;
    }
    if (++at_ == text_.size()) {
      fields.push_back({});
      return true;
    }
  }
}

std::string_view CsvRecords::plain() {
  const std::size_t end = std::min(text_.find_first_of(ends_, at_), text_.size());
  const std::string_view field = text_.substr(at_, end - at_);
  at_ = end;
  return trim(field);
}

std::string_view CsvRecords::quoted(std::size_t column) {
  std::string& field = unquoted_.emplace_back();
  for (++at_; at_ < text_.size(); ++at_) {
    if (text_[at_] == '"') {
      if (text_.substr(at_ + 1, 1) != "\"") break;
      ++at_;  // a doubled quote is a quote
    }
    if (text_[at_] == '\n') ++next_line_;
    field.push_back(text_[at_]);
  }
  if (at_ >= text_.size()) {
    fail("{}:{}:{}: the quote is never closed; expected a closing \"", name_, line_, column);
  }
  ++at_;
  if (at_ < text_.size() && text_.substr(at_, 1).find_first_of(ends_) == std::string_view::npos) {
    fail("{}:{}:{}: text after the closing quote; expected a separator or the end of the line", name_, line_, column);
  }
  return field;
}

void CsvRecords::skip_line_end() {
  if (text_[at_] == '\n') ++next_line_;
  ++at_;
}

}  // namespace parley
