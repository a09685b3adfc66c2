#include "parley/data/read/leaf.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "parley/base/counted.h"
#include "parley/base/errors.h"
#include "parley/base/nesting.h"
#include "parley/data/read/bytes.h"

namespace parley {
namespace {

using nlohmann::json;

const json& member(const json& object, const char* key, const std::string& where) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end()) {
    fail("{}: no '{}'; expected LEAF's users, num_samples and user_data", where, key);
  }
  return *found;
}

const json& list(const json& value, const std::string& where) {
  if (!value.is_array()) fail("{}: expected a list, found {}", where, value.type_name());
  return value;
}

// No data is nested deeper; a damaged file must not exhaust the stack.
constexpr int kDeepest = 8;

void flatten(const json& value, std::vector<float>& out, const std::string& where, int depth = 0) {
  if (value.is_array() && depth < kDeepest) {
    for (const auto& item : value) flatten(item, out, where, depth + 1);
    return;
  }
  if (!value.is_number()) {
    fail("{}: x: expected numbers, found {}; LEAF's text data sets are not read", where, value.type_name());
  }
  const auto number = static_cast<float>(value.get<double>());
  if (!std::isfinite(number)) fail("{}: x: {} is not a finite number", where, value.dump());
  out.push_back(number);
}

// Some LEAF sets write labels as 3.0.
std::int32_t label_of(const json& value, const std::string& where) {
  const double number = value.is_number() ? value.get<double>() : -1.0;
  if (number < 0 || number > std::numeric_limits<std::int32_t>::max() || number != std::floor(number)) {
    fail("{}: y: expected a whole number from 0, found {}", where, value.dump());
  }
  return static_cast<std::int32_t>(number);
}

void append_user(const json& data, const std::string& user, const std::string& where, LeafTable& table) {
  const json& x = list(member(data, "x", where), where + ": x");
  const json& y = list(member(data, "y", where), where + ": y");
  if (x.size() != y.size()) fail("{}: {} of x, but {} of y", where, counted(x.size(), "row"), y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t before = table.values.size();
    flatten(x[i], table.values, where);
    const std::size_t found = table.values.size() - before;
    if (table.features == 0) table.features = found;
    if (found != table.features || found == 0) {
      fail("{}: row {}: expected {}, found {}", where, i, counted(table.features, "feature"), found);
    }
    table.labels.push_back(label_of(y[i], where));
    table.users.push_back(user);
  }
}

json parse_json(std::string_view text, const std::string& name) {
  refuse_deep_json(text, name);
  try {
    return json::parse(text);
  } catch (const json::exception& error) {
    fail("{}: not valid JSON: {}", name, error.what());
  }
}

}  // namespace

void append_leaf(std::string_view text, const std::string& name, LeafTable& table) {
  const json root = parse_json(text, name);
  const json& users = list(member(root, "users", name), name + ": users");
  const json& counts = list(member(root, "num_samples", name), name + ": num_samples");
  const json& data = member(root, "user_data", name);
  if (users.size() != counts.size()) {
    fail("{}: {} users, but {} num_samples", name, users.size(), counts.size());
  }
  for (std::size_t i = 0; i < users.size(); ++i) {
    if (!users[i].is_string()) fail("{}: users: expected texts, found {}", name, users[i].dump());
    const auto user = users[i].get<std::string>();
    const std::string where = fmt::format("{}: user '{}'", name, user);
    const std::size_t before = table.labels.size();
    append_user(member(data, user.c_str(), where), user, where, table);
    const std::size_t rows = table.labels.size() - before;
    if (!counts[i].is_number_unsigned() || counts[i].get<std::size_t>() != rows) {
      fail("{}: num_samples says {}, found {}; the file is damaged", where, counts[i].dump(), counted(rows, "row"));
    }
  }
}

LeafTable read_leaf(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  if (fs::is_directory(path)) {
    for (const auto& entry : fs::directory_iterator(path)) {
      if (entry.path().extension() == ".json") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
  } else {
    files.push_back(path);
  }
  if (files.empty()) fail("{}: expected LEAF's .json files in this folder, found none", path.string());
  LeafTable table;
  for (const auto& file : files) append_leaf(read_unpacked(file), file.string(), table);
  if (table.labels.empty()) fail("{}: no rows; expected user_data with x and y", path.string());
  return table;
}

}  // namespace parley
