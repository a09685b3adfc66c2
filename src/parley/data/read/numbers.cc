#include "parley/data/read/numbers.h"

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>

#include "parley/base/errors.h"
#include "parley/data/read/bytes.h"

namespace parley {
namespace {

constexpr std::string_view kBlanks = " \t\r";

template <class T>
std::optional<T> parse(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  if constexpr (std::floating_point<T>) {
    if (!std::isfinite(value)) return {};
  }
  return value;
}

template <class T>
T number(std::string_view word, const std::string& name, std::size_t line) {
  if (const auto value = parse<T>(word)) return *value;
  fail("{}:{}: expected a {}, found '{}'; unpack the file again", name, line,
       std::floating_point<T> ? "finite number" : "whole number", word.substr(0, 40));
}

// Appends the numbers of one line and returns how many there were.
template <class T>
std::size_t append_line(std::string_view line, std::vector<T>& values, const std::string& name,
                        std::size_t line_number) {
  std::size_t count = 0;
  for (std::size_t begin = line.find_first_not_of(kBlanks); begin != std::string_view::npos; ++count) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, begin), line.size());
    values.push_back(number<T>(line.substr(begin, end - begin), name, line_number));
    begin = line.find_first_not_of(kBlanks, end);
  }
  return count;
}

}  // namespace

std::optional<float> finite_number(std::string_view text) {
  return parse<float>(text);
}

template <class T>
std::vector<T> parse_number_table(std::string_view text, std::size_t columns, const std::string& name) {
  std::vector<T> values;
  std::size_t line = 1;
  for (std::size_t begin = 0; begin < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::size_t count = append_line(text.substr(begin, end - begin), values, name, line);
    if (count != columns) {
      fail("{}:{}: expected {} numbers, found {}; unpack the file again", name, line, columns, count);
    }
    begin = end + 1;
  }
  if (values.empty()) fail("{}: empty; expected rows of {} numbers", name, columns);
  return values;
}

template <class T>
std::vector<T> read_number_table(const std::filesystem::path& path, std::size_t columns) {
  return parse_number_table<T>(read_unpacked(path), columns, path.string());
}

template std::vector<float> parse_number_table(std::string_view, std::size_t, const std::string&);
template std::vector<std::int32_t> parse_number_table(std::string_view, std::size_t, const std::string&);
template std::vector<float> read_number_table(const std::filesystem::path&, std::size_t);
template std::vector<std::int32_t> read_number_table(const std::filesystem::path&, std::size_t);

}  // namespace parley
