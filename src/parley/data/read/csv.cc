#include "parley/data/read/csv.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "parley/base/counted.h"
#include "parley/base/errors.h"
#include "parley/data/read/bytes.h"
#include "parley/data/read/csv_code.h"
#include "parley/data/read/csv_records.h"
#include "parley/data/read/labels.h"

namespace parley {
namespace {

// Where each column goes.
struct Plan {
  std::vector<std::string> header;
  std::vector<std::size_t> features;
  std::vector<std::size_t> targets;
  std::size_t label = 0, user = 0;
};

std::size_t column_of(const std::vector<std::string>& header, const std::string& column, const std::string& name) {
  const auto found = std::find(header.begin(), header.end(), column);
  if (found == header.end()) fail("{}:1: {}", name, unknown_name("column", column, header));
  return static_cast<std::size_t>(found - header.begin());
}

Plan make_plan(const std::vector<std::string_view>& fields, const CsvColumns& columns, const std::string& name) {
  Plan plan;
  plan.header.assign(fields.begin(), fields.end());
  std::set<std::string> seen;
  for (std::size_t i = 0; i < plan.header.size(); ++i) {
    if (!seen.insert(plan.header[i]).second) {
      fail("{}:1:{}: the column '{}' appears twice; expected different names", name, i + 1, plan.header[i]);
    }
  }
  std::set<std::size_t> taken;
  const auto take = [&](const std::string& column) {
    const std::size_t at = column_of(plan.header, column, name);
    if (!taken.insert(at).second) {
      fail("{}:1:{}: the column '{}' is named for two purposes; expected one", name, at + 1, column);
    }
    return at;
  };
  if (!columns.label.empty()) plan.label = take(columns.label);
  if (!columns.user.empty()) plan.user = take(columns.user);
  for (const auto& column : columns.targets) plan.targets.push_back(take(column));
  for (const auto& column : columns.ignored) take(column);
  for (std::size_t i = 0; i < plan.header.size(); ++i) {
    if (!taken.contains(i)) plan.features.push_back(i);
  }
  if (plan.features.empty()) fail("{}:1: no feature column is left; found only {}", name, fmt::join(plan.header, ", "));
  return plan;
}

// The separator that the header has most of, outside quotes.
char separator_of(std::string_view text) {
  static constexpr std::string_view kCandidates = ",;\t|";
  std::array<std::size_t, kCandidates.size()> counts{};
  bool quoted = false;
  for (const char c : text.substr(0, text.find('\n'))) {
    if (c == '"') quoted = !quoted;
    const std::size_t candidate = kCandidates.find(c);
    if (!quoted && candidate != std::string_view::npos) ++counts[candidate];
  }
  return kCandidates[static_cast<std::size_t>(std::ranges::max_element(counts) - counts.begin())];
}

// The rows of a table behind its header, each with as many fields.
class Rows {
 public:
  Rows(std::string_view text, const CsvColumns& columns, char separator, const std::string& name)
      : records_(text, name, separator), name_(name) {
    if (!records_.next(fields_)) fail("{}: empty; expected a header line and rows", name);
    plan_ = make_plan(fields_, columns, name);
  }

  const Plan& plan() const { return plan_; }
  std::size_t line() const { return records_.line(); }
  std::string_view operator[](std::size_t column) const { return fields_[column]; }

  bool next() {
    if (!records_.next(fields_)) return false;
    if (fields_.size() != plan_.header.size()) {
      fail("{}:{}:{}: expected {} as in the header, found {}", name_, line(),
           std::min(fields_.size(), plan_.header.size()) + 1, counted(plan_.header.size(), "field"), fields_.size());
    }
    return true;
  }

  template <class... Args>
  [[noreturn]] void refuse(std::size_t column, fmt::format_string<Args...> text, Args&&... args) const {
    fail("{}:{}:{}: column '{}': {}", name_, line(), column + 1, plan_.header[column],
         fmt::format(text, std::forward<Args>(args)...));
  }

 private:
  CsvRecords records_;
  const std::string& name_;
  std::vector<std::string_view> fields_;
  Plan plan_;
};

// Whether anything that a row must have is missing.
bool lacks_something(const Rows& row, const CsvColumns& columns) {
  const auto lacks = [&](std::size_t column) { return is_missing(row[column]); };
  const Plan& plan = row.plan();
  return std::ranges::any_of(plan.features, lacks) || std::ranges::any_of(plan.targets, lacks) ||
         (!columns.label.empty() && lacks(plan.label)) || (!columns.user.empty() && lacks(plan.user));
}

void add_feature(const Rows& row, std::size_t column, const CsvCode& code, const CsvReading& reading,
                 std::vector<float>& values) {
  const bool missing = is_missing(row[column]);
  if (missing && reading.missing == CsvReading::Missing::refuse) {
    row.refuse(column,
               "expected a value, found '{}'; set data.missing = \"mean\" or \"drop\", or leave the column out with "
               "data.ignore = [\"{}\"]",
               row[column], row.plan().header[column]);
  }
  const auto value = missing ? code.instead : decode(code, row[column], reading.separator);
  const bool one_hot = code.kind == CsvCode::Kind::category && reading.categories == CsvReading::Categories::one_hot;
  if (one_hot) {
    values.resize(values.size() + code.categories.size());
    if (value) values[values.size() - code.categories.size() + static_cast<std::size_t>(*value)] = 1.0f;
  } else if (value) {
    values.push_back(*value);
  } else {
    row.refuse(column, "'{}' is not what the training file has there: {}", row[column],
               code.kind == CsvCode::Kind::number    ? "finite numbers"
               : code.kind == CsvCode::Kind::boolean ? "yes and no"
               : code.kind == CsvCode::Kind::date    ? "dates such as 2026-11-17"
                                                     : "the categories that it was coded by");
  }
}

float target(const Rows& row, std::size_t column, char separator) {
  if (const auto value = csv_number(row[column], separator)) return *value;
  row.refuse(column, "expected a finite number, found '{}'", row[column]);
}

std::string word(const Rows& row, std::size_t column) {
  if (row[column].empty()) row.refuse(column, "expected a value, found nothing");
  return std::string(row[column]);
}

void add_names(const std::string& column, const CsvCode& code, const CsvReading& reading,
               std::vector<std::string>& names) {
  if (code.kind == CsvCode::Kind::category && reading.categories == CsvReading::Categories::one_hot) {
    for (const auto& [category, number] : code.categories) names.push_back(column + "=" + category);
  } else {
    names.push_back(column);
  }
}

void append_utf8(std::string& to, std::uint32_t code) {
  if (code < 0x80) {
    to.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    to.push_back(static_cast<char>(0xC0 | code >> 6));
    to.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else if (code < 0x10000) {
    to.push_back(static_cast<char>(0xE0 | code >> 12));
    to.push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
    to.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else {
    to.push_back(static_cast<char>(0xF0 | code >> 18));
    to.push_back(static_cast<char>(0x80 | (code >> 12 & 0x3F)));
    to.push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
    to.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  }
}

// `text` behind its mark; a half pair of surrogates becomes the sign for what cannot be read.
std::string from_utf16(std::string_view text, bool big_endian) {
  const auto unit = [&](std::size_t at) {
    const auto a = static_cast<std::uint8_t>(text[at]), b = static_cast<std::uint8_t>(text[at + 1]);
    return static_cast<std::uint32_t>(big_endian ? a << 8 | b : b << 8 | a);
  };
  std::string result;
  for (std::size_t at = 0; at + 1 < text.size(); at += 2) {
    std::uint32_t code = unit(at);
    if (code >= 0xD800 && code < 0xE000) {
      const std::uint32_t low = at + 3 < text.size() ? unit(at + 2) : 0;
      const bool pair = code < 0xDC00 && low >= 0xDC00 && low < 0xE000;
      code = pair ? 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00) : 0xFFFD;
      if (pair) at += 2;
    }
    append_utf8(result, code);
  }
  return result;
}

}  // namespace

CsvCoding learn_csv(std::string_view text, const CsvColumns& columns, CsvReading reading, const std::string& name) {
  if (reading.separator == 0) reading.separator = separator_of(text);
  Rows row(text, columns, reading.separator, name);
  const auto& features = row.plan().features;
  std::vector<LearnedColumn> learned(features.size());
  while (row.next()) {
    if (reading.missing == CsvReading::Missing::drop && lacks_something(row, columns)) continue;
    for (std::size_t i = 0; i < features.size(); ++i) learned[i].see(row[features[i]], row.line(), reading.separator);
  }
  CsvCoding coding{.reading = reading, .features = {}};
  for (std::size_t i = 0; i < features.size(); ++i) {
    coding.features.push_back(learned[i].code(name, features[i], row.plan().header[features[i]]));
  }
  return coding;
}

CsvTable parse_csv(std::string_view text, const CsvColumns& columns, const CsvCoding& coding, const std::string& name) {
  const CsvReading& reading = coding.reading;
  Rows row(text, columns, reading.separator, name);
  const Plan& plan = row.plan();
  if (plan.features.size() != coding.features.size()) {
    fail("{}:1: {}; expected {} as in the training file", name, counted(plan.features.size(), "feature column"),
         coding.features.size());
  }
  CsvTable table;
  for (std::size_t i = 0; i < plan.features.size(); ++i) {
    add_names(plan.header[plan.features[i]], coding.features[i], reading, table.features);
  }
  bool dropped = false;
  while (row.next()) {
    if (reading.missing == CsvReading::Missing::drop && lacks_something(row, columns)) {
      dropped = true;
      continue;
    }
    for (std::size_t i = 0; i < plan.features.size(); ++i) {
      add_feature(row, plan.features[i], coding.features[i], reading, table.values);
    }
    for (const auto column : plan.targets) table.targets.push_back(target(row, column, reading.separator));
    if (!columns.label.empty()) table.labels.push_back(word(row, plan.label));
    if (!columns.user.empty()) table.users.push_back(word(row, plan.user));
    table.lines.push_back(row.line());
    ++table.rows;
  }
  if (table.rows == 0 && dropped) {
    fail("{}: every row lacks a value, and data.missing = \"drop\" leaves none; use \"mean\"", name);
  }
  if (table.rows == 0) fail("{}: has a header, but no rows", name);
  return table;
}

std::string read_csv_text(const std::filesystem::path& path) {
  std::string text = read_unpacked(path);
  if (text.starts_with("\xff\xfe")) return from_utf16(std::string_view(text).substr(2), /*big_endian=*/false);
  if (text.starts_with("\xfe\xff")) return from_utf16(std::string_view(text).substr(2), /*big_endian=*/true);
  return text;
}

CsvClasses number_labels(const CsvTable& train, const std::string& train_name, const CsvTable& test,
                         const std::string& test_name) {
  CsvClasses classes;
  const bool numbers = !train.labels.empty() && natural_number(train.labels.front()) >= 0;
  if (!numbers) {
    const std::set<std::string> distinct(train.labels.begin(), train.labels.end());
    classes.names.assign(distinct.begin(), distinct.end());
  }
  const auto convert = [&](const CsvTable& table, const std::string& name) {
    const auto& labels = table.labels;
    std::vector<std::int32_t> result;
    result.reserve(labels.size());
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const auto found = std::lower_bound(classes.names.begin(), classes.names.end(), labels[i]);
      if (numbers && natural_number(labels[i]) < 0) {
        fail("{}:{}: label '{}': expected a whole number from 0 as in the first row", name, table.lines[i], labels[i]);
      }
      if (!numbers && (found == classes.names.end() || *found != labels[i])) {
        fail("{}:{}: {}", name, table.lines[i], unknown_name("label", labels[i], classes.names));
      }
      result.push_back(numbers ? natural_number(labels[i]) : static_cast<std::int32_t>(found - classes.names.begin()));
    }
    return result;
  };
  classes.train = convert(train, train_name);
  classes.test = convert(test, test_name);
  return classes;
}

}  // namespace parley
