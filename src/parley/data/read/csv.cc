#include "parley/data/read/csv.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "parley/base/errors.h"
#include "parley/data/read/bytes.h"
#include "parley/data/read/csv_records.h"
#include "parley/data/read/labels.h"
#include "parley/data/read/numbers.h"

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

struct Place {
  const std::string& name;
  std::size_t line;
  const Plan& plan;
};

float number(std::string_view field, std::size_t column, const Place& place) {
  if (const auto value = finite_number(field)) return *value;
  fail("{}:{}:{}: column '{}': expected a finite number, found '{}'", place.name, place.line, column + 1,
       place.plan.header[column], field);
}

std::string word(std::string_view field, std::size_t column, const Place& place) {
  if (field.empty()) {
    fail("{}:{}:{}: column '{}': expected a value, found nothing", place.name, place.line, column + 1,
         place.plan.header[column]);
  }
  return std::string(field);
}

}  // namespace

CsvTable parse_csv(std::string_view text, const CsvColumns& columns, const std::string& name) {
  CsvRecords records(text, name);
  std::vector<std::string_view> fields;
  if (!records.next(fields)) fail("{}: empty; expected a header line and rows", name);
  const Plan plan = make_plan(fields, columns, name);
  CsvTable table;
  for (const auto column : plan.features) table.features.push_back(plan.header[column]);
  while (records.next(fields)) {
    const Place place{name, records.line(), plan};
    if (fields.size() != plan.header.size()) {
      fail("{}:{}:{}: expected {} fields as in the header, found {}", name, place.line,
           std::min(fields.size(), plan.header.size()) + 1, plan.header.size(), fields.size());
    }
    for (const auto column : plan.features) table.values.push_back(number(fields[column], column, place));
    for (const auto column : plan.targets) table.targets.push_back(number(fields[column], column, place));
    if (!columns.label.empty()) table.labels.push_back(word(fields[plan.label], plan.label, place));
    if (!columns.user.empty()) table.users.push_back(word(fields[plan.user], plan.user, place));
    ++table.rows;
  }
  if (table.rows == 0) fail("{}: has a header, but no rows", name);
  return table;
}

CsvTable read_csv(const std::filesystem::path& path, const CsvColumns& columns) {
  return parse_csv(read_unpacked(path), columns, path.string());
}

CsvClasses number_labels(const std::vector<std::string>& train, const std::string& train_name,
                         const std::vector<std::string>& test, const std::string& test_name) {
  CsvClasses classes;
  const bool numbers = !train.empty() && natural_number(train.front()) >= 0;
  if (!numbers) {
    const std::set<std::string> distinct(train.begin(), train.end());
    classes.names.assign(distinct.begin(), distinct.end());
  }
  const auto convert = [&](const std::vector<std::string>& labels, const std::string& name) {
    std::vector<std::int32_t> result;
    result.reserve(labels.size());
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const auto found = std::lower_bound(classes.names.begin(), classes.names.end(), labels[i]);
      if (numbers && natural_number(labels[i]) < 0) {
        fail("{}: row {}: label '{}': expected a whole number from 0 as in the first row", name, i, labels[i]);
      }
      if (!numbers && (found == classes.names.end() || *found != labels[i])) {
        fail("{}: row {}: {}", name, i, unknown_name("label", labels[i], classes.names));
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
