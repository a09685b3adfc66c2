// A number with its noun, for messages: "1 client", "0 rows", "2 entries".
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace parley {

// The plural is the noun with an s unless it is given.
template <std::integral Number>
std::string counted(Number number, std::string_view noun, std::string_view plural = {}) {
  std::string text = std::to_string(number) + " ";
  if (number == 1) return text.append(noun);
  return plural.empty() ? text.append(noun).append("s") : text.append(plural);
}

}  // namespace parley
