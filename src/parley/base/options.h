// Options: what can be set, and what has been set.
//
// An `Option` declares a key with its default, range and meaning. `Options` holds the checked values of one section,
// defaults filled in. Reading a key that was never declared, or as another type, is a bug, not a user error:
// std::logic_error, with the nearest key that there is.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace parley {

using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>,
                           std::vector<std::string>>;

// Legal values of a number; either end may be excluded.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_excluded = false;
  bool high_excluded = false;
  bool contains(double x) const;
  std::string describe() const;  // "> 0", "in [0, 1)", "" when unbounded
};
inline Range at_least(double low) {
  return {.low = low};
}
inline Range above(double low) {
  return {.low = low, .low_excluded = true};
}
inline Range between(double low, double high) {
  return {.low = low, .high = high};
}

// A key of the same section and the values of it with which an option does something.
struct OnlyWith {
  std::string key;
  std::vector<std::string> values;
};

struct Option {
  std::string key;
  Value fallback;  // its type is the option's type
  std::string meaning;
  Range range = {};                       // numbers, and each number of a list
  std::vector<std::string> choices = {};  // text: the legal values; empty means any
  bool is_path = false;                   // text: a file, relative to the working folder or to the experiment file
  std::vector<OnlyWith> only = {};        // all of them must hold; otherwise the option does nothing

  // The first condition that does not hold among these values, or null.
  const OnlyWith* unmet(const class Options& options) const;
};
// These options, with one more condition for each.
std::vector<Option> only_with(const OnlyWith& condition, std::vector<Option> options);
// "only with curvature = \"input\" or \"kfac\"", "" without conditions.
std::string describe(const std::vector<OnlyWith>& conditions);

// "true", "0.1", "\"iid\"", "[500, 300]": as TOML writes it.
std::string to_toml(const Value& value);
// "true or false", "a whole number", "a number", "a text", "a list of whole numbers", …
std::string type_name(const Value& value);

class Options {
 public:
  Options() = default;
  // `where` names the section in messages ("client").
  explicit Options(std::string where) : where_(std::move(where)) {}
  // All defaults; the usual start of a test.
  Options(std::string where, const std::vector<Option>& declared);

  void set(const std::string& key, Value value) { values_[key] = std::move(value); }
  bool has(std::string_view key) const { return values_.find(key) != values_.end(); }
  // An option that does nothing here: it keeps its default, and is left out of a run's config.toml.
  void set_inert(const std::string& key) { inert_.insert(key); }
  bool inert(const std::string& key) const { return inert_.contains(key); }

  bool flag(std::string_view key) const;
  std::int64_t integer(std::string_view key) const;
  double real(std::string_view key) const;
  const std::string& text(std::string_view key) const;
  const std::vector<std::int64_t>& integers(std::string_view key) const;
  const std::vector<std::string>& texts(std::string_view key) const;

  const std::string& where() const { return where_; }
  const std::map<std::string, Value, std::less<>>& values() const { return values_; }

 private:
  template <class T>
  const T& get(std::string_view key) const;

  std::string where_;
  std::map<std::string, Value, std::less<>> values_;
  std::set<std::string> inert_;
};

}  // namespace parley
