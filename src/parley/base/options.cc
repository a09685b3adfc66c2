#include "parley/base/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ranges>
#include <stdexcept>

#include "parley/base/errors.h"

namespace parley {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    switch (c) {
      case '"': result += "\\\""; break;
      case '\\': result += "\\\\"; break;
      case '\n': result += "\\n"; break;
      case '\t': result += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          result += c;
        }
    }
  }
  return result + '"';
}

// TOML needs a point or an exponent to know a float from an integer.
std::string number(double x) {
  std::string text = fmt::format("{}", x);
  if (std::isfinite(x) && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

struct Writer {
  std::string operator()(bool x) const { return x ? "true" : "false"; }
  std::string operator()(std::int64_t x) const { return fmt::format("{}", x); }
  std::string operator()(double x) const { return number(x); }
  std::string operator()(const std::string& x) const { return quoted(x); }
  template <class T>
  std::string operator()(const std::vector<T>& list) const {
    std::vector<std::string> parts;
    for (const auto& item : list) parts.push_back((*this)(item));
    return fmt::format("[{}]", fmt::join(parts, ", "));
  }
};

}  // namespace

bool Range::contains(double x) const {
  return (low_excluded ? x > low : x >= low) && (high_excluded ? x < high : x <= high);
}

std::string Range::describe() const {
  const bool has_low = std::isfinite(low), has_high = std::isfinite(high);
  if (has_low && has_high) {
    return fmt::format("in {}{}, {}{}", low_excluded ? '(' : '[', low, high, high_excluded ? ')' : ']');
  }
  if (has_low) return fmt::format("{} {}", low_excluded ? ">" : ">=", low);
  if (has_high) return fmt::format("{} {}", high_excluded ? "<" : "<=", high);
  return "";
}

std::string to_toml(const Value& value) {
  return std::visit(Writer{}, value);
}

std::string type_name(const Value& value) {
  static const char* const names[] = {"true or false",           "a whole number",    "a number",       "a text",
                                      "a list of whole numbers", "a list of numbers", "a list of texts"};
  return names[value.index()];
}

const OnlyWith* Option::unmet(const Options& options) const {
  for (const auto& condition : only) {
    if (std::ranges::find(condition.values, options.text(condition.key)) == condition.values.end()) return &condition;
  }
  return nullptr;
}

std::vector<Option> only_with(const OnlyWith& condition, std::vector<Option> options) {
  for (auto& option : options) option.only.insert(option.only.begin(), condition);
  return options;
}

std::string describe(const std::vector<OnlyWith>& conditions) {
  std::string text;
  for (const auto& [key, values] : conditions) {
    std::vector<std::string> parts;
    for (const auto& value : values) parts.push_back(quoted(value));
    text += fmt::format("{} {} = {}", text.empty() ? "only with" : " and", key, fmt::join(parts, " or "));
  }
  return text;
}

Options::Options(std::string where, const std::vector<Option>& declared) : where_(std::move(where)) {
  for (const auto& option : declared) values_[option.key] = option.fallback;
}

template <class T>
const T& Options::get(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) {
    const auto keys = std::views::keys(values_);
    throw std::logic_error(unknown_name(fmt::format("option of [{}]", where_), key, {keys.begin(), keys.end()}));
  }
  const T* value = std::get_if<T>(&found->second);
  if (value == nullptr) {
    throw std::logic_error(
        fmt::format("option '{}.{}' is {}, and was read as {}", where_, key, type_name(found->second), type_name(T{})));
  }
  return *value;
}

bool Options::flag(std::string_view key) const {
  return get<bool>(key);
}
std::int64_t Options::integer(std::string_view key) const {
  return get<std::int64_t>(key);
}
double Options::real(std::string_view key) const {
  return get<double>(key);
}
const std::string& Options::text(std::string_view key) const {
  return get<std::string>(key);
}
const std::vector<std::int64_t>& Options::integers(std::string_view key) const {
  return get<std::vector<std::int64_t>>(key);
}
const std::vector<std::string>& Options::texts(std::string_view key) const {
  return get<std::vector<std::string>>(key);
}

}  // namespace parley
