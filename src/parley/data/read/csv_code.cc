#include "parley/data/read/csv_code.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

#include "parley/base/errors.h"
#include "parley/data/read/numbers.h"

namespace parley {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::optional<float> truth(std::string_view field) {
  const std::string word = lower(field);
  if (word == "true" || word == "yes" || word == "t" || word == "y") return 1.0f;
  if (word == "false" || word == "no" || word == "f" || word == "n") return 0.0f;
  return {};
}

// A number that no float holds: meant as one, and refused as such.
bool overflows(std::string_view field) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  return end == field.data() + field.size() && error != std::errc::invalid_argument;
}

// Takes a whole number of exactly so many digits from the front.
std::optional<int> take_digits(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return {};
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, value);
  if (error != std::errc() || end != text.data() + digits || text[0] == '-') return {};
  text.remove_prefix(digits);
  return value;
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

// "08:30", "08:30:15", "08:30:15.25Z" as a part of a day.
std::optional<double> time_of_day(std::string_view text) {
  const auto hours = take_digits(text, 2);
  if (!hours || !take(text, ':')) return {};
  const auto minutes = take_digits(text, 2);
  if (!minutes) return {};
  double seconds = 0.0;
  if (take(text, ':')) {
    const std::size_t end = std::min(text.find('Z'), text.size());
    const auto number = finite_number(text.substr(0, end));
    if (!number) return {};
    seconds = static_cast<double>(*number);
    text.remove_prefix(end);
  }
  take(text, 'Z');
  if (!text.empty() || *hours > 24 || *minutes > 59 || seconds < 0.0 || seconds > 60.0) return {};
  return (*hours * 3600.0 + *minutes * 60.0 + seconds) / 86400.0;
}

}  // namespace

bool is_missing(std::string_view field) {
  static constexpr std::array<std::string_view, 7> kMarks{"", "na", "n/a", "nan", "null", "none", "?"};
  return field.size() <= 4 && std::ranges::find(kMarks, lower(field)) != kMarks.end();
}

std::optional<float> csv_number(std::string_view field, char separator) {
  if (separator == ',' || std::ranges::count(field, ',') != 1 || field.find('.') != std::string_view::npos) {
    return finite_number(field);
  }
  std::string point(field);
  point[point.find(',')] = '.';
  return finite_number(point);
}

std::optional<float> csv_date(std::string_view field) {
  const auto year = take_digits(field, 4);
  if (!year || !take(field, '-')) return {};
  const auto month = take_digits(field, 2);
  if (!month || !take(field, '-')) return {};
  const auto day = take_digits(field, 2);
  if (!day) return {};
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return {};
  const double days = static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count());
  if (field.empty()) return static_cast<float>(days);
  if (!take(field, 'T') && !take(field, ' ')) return {};
  const auto part = time_of_day(field);
  if (!part) return {};
  return static_cast<float>(days + *part);
}

void LearnedColumn::see(std::string_view field, std::size_t line, char separator) {
  if (is_missing(field)) return;
  ++seen_;
  if (const auto number = csv_number(field, separator)) {
    ++numbers_;
    sum_ += static_cast<double>(*number);
  } else if (overflows(field)) {
    ++numbers_;
  } else {
    if (text_line_ == 0) {
      first_text_ = field;
      text_line_ = line;
    }
    if (const auto yes = truth(field)) {
      ++booleans_;
      sum_ += static_cast<double>(*yes);
    } else if (const auto days = csv_date(field)) {
      ++dates_;
      sum_ += static_cast<double>(*days);
    }
  }
  if (const auto found = counts_.find(field); found != counts_.end()) {
    ++found->second;
  } else if (counts_.size() <= kMostCategories) {
    counts_.emplace(field, 1);
  }
}

CsvCode LearnedColumn::code(const std::string& name, std::size_t index, const std::string& column) const {
  const float mean = seen_ == 0 ? 0.0f : static_cast<float>(sum_ / static_cast<double>(seen_));
  if (numbers_ == seen_) return {CsvCode::Kind::number, {}, mean};
  if (booleans_ == seen_) return {CsvCode::Kind::boolean, {}, mean};
  if (dates_ == seen_) return {CsvCode::Kind::date, {}, mean};
  if (2 * numbers_ >= seen_) {
    fail(
        "{0}:{3}:{4}: column '{1}': expected a finite number as in most rows, found '{2}'; correct it, empty the field "
        "(see "
        "data.missing), or leave the column out with data.ignore = [\"{1}\"]",
        name, column, first_text_, text_line_, index + 1);
  }
  if (counts_.size() > kMostCategories) {
    fail(
        "{0}:{4}:{5}: column '{1}' holds text such as '{2}' with more than {3} different values; leave it out with "
        "data.ignore "
        "= [\"{1}\"]",
        name, column, first_text_, kMostCategories, text_line_, index + 1);
  }
  CsvCode code{.kind = CsvCode::Kind::category};
  std::size_t most = 0;
  for (const auto& [category, count] : counts_) {
    const std::size_t number = code.categories.size();
    code.categories.emplace(category, number);
    if (count > most) code.instead = static_cast<float>(number);
    most = std::max(most, count);
  }
  return code;
}

std::optional<float> decode(const CsvCode& code, std::string_view field, char separator) {
  switch (code.kind) {
    case CsvCode::Kind::number: return csv_number(field, separator);
    case CsvCode::Kind::boolean: return truth(field);
    case CsvCode::Kind::date: return csv_date(field);
    case CsvCode::Kind::category: break;
  }
  const auto found = code.categories.find(field);
  if (found == code.categories.end()) return {};
  return static_cast<float>(found->second);
}

}  // namespace parley
