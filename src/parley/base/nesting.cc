#include "parley/base/nesting.h"

#include <algorithm>

#include "parley/base/errors.h"

namespace parley {
namespace {

constexpr std::size_t kDeepest = 64;
constexpr std::size_t kMostParts = 16;  // of a TOML key

// The position behind the text that begins with the quote at `at`.
std::size_t behind_text(std::string_view text, std::size_t at, std::string_view quote, bool escapes) {
  for (at += quote.size(); at < text.size(); ++at) {
    if (escapes && text[at] == '\\') {
      ++at;
    } else if (text.substr(at).starts_with(quote)) {
      return at + quote.size();
    }
  }
  return text.size();
}

// Behind a TOML text of any of the four kinds; `at` itself when none begins here.
std::size_t behind_toml_text(std::string_view text, std::size_t at) {
  for (const std::string_view quote : {"\"\"\"", "'''", "\"", "'"}) {
    if (text.substr(at).starts_with(quote)) return behind_text(text, at, quote, quote[0] == '"');
  }
  return at;
}

}  // namespace

void refuse_deep_json(std::string_view text, const std::string& name) {
  std::size_t depth = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"') {
      at = behind_text(text, at, "\"", true);
      continue;
    }
    if (c == '[' || c == '{') ++depth;
    if ((c == ']' || c == '}') && depth > 0) --depth;
    if (depth > kDeepest) {
      fail("{}: lists and objects lie more than {} deep; expected a flat file, is it damaged?", name, kDeepest);
    }
    ++at;
  }
}

void refuse_deep_toml(std::string_view text, const std::string& name) {
  std::size_t depth = 0, dots = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (const std::size_t behind = behind_toml_text(text, at); behind > at) {
      at = behind;
      continue;
    }
    const char c = text[at];
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (c == '.') ++dots;
    if (c == '[' || c == '{') ++depth;
    if ((c == ']' || c == '}') && depth > 0) --depth;
    if (c == '\n' || c == '=' || c == ',' || c == '[' || c == '{') dots = 0;
    if (depth > kDeepest || dots >= kMostParts) {
      const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
      fail("{}:{}: {}; expected section.key = value", name, line,
           dots >= kMostParts ? fmt::format("a key of more than {} parts", kMostParts)
                              : fmt::format("values lie more than {} deep", kDeepest));
    }
    ++at;
  }
}

}  // namespace parley
