// Characters of English text, and their numbers: line end, space, digits, letters and the usual punctuation, 79 in all,
// and one class for every other character.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace parley {

inline constexpr std::size_t kCharacters = 80;

// The classes of a text's characters, in [0, 80). As a token a character has its class + 1, because 0 is padding.
std::vector<std::uint8_t> character_classes(std::string_view text);
// What the classes are called: the character itself, or "newline", "space", "other".
std::vector<std::string> character_names();

}  // namespace parley
