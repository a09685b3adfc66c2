#include "parley/data/characters.h"

#include <algorithm>
#include <array>

namespace parley {
namespace {

constexpr std::string_view kKnown = "\n !\"$&'(),-.0123456789:;?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz";
static_assert(kKnown.size() == kCharacters - 1);

}  // namespace

std::vector<std::uint8_t> character_classes(std::string_view text) {
  std::array<std::uint8_t, 256> class_of;
  class_of.fill(kCharacters - 1);
  for (std::size_t i = 0; i < kKnown.size(); ++i) {
    class_of[static_cast<unsigned char>(kKnown[i])] = static_cast<std::uint8_t>(i);
  }
  std::vector<std::uint8_t> classes(text.size());
  std::transform(text.begin(), text.end(), classes.begin(),
                 [&](char c) { return class_of[static_cast<unsigned char>(c)]; });
  return classes;
}

std::vector<std::string> character_names() {
  std::vector<std::string> names;
  for (const char c : kKnown) names.push_back(c == '\n' ? "newline" : c == ' ' ? "space" : std::string(1, c));
  names.push_back("other");
  return names;
}

}  // namespace parley
