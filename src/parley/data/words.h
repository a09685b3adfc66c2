// Words of short texts, and their numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace parley {

// The words in lower case: runs of letters, digits and apostrophes. A link becomes "<url>" and @somebody "<user>",
// because which one it is says nothing about a text's mood. Bytes above ASCII count as letters.
std::vector<std::string> words_of(std::string_view text);

// The `most` words that occur most often, commonest first; equally common ones by the alphabet.
std::vector<std::string> common_words(std::span<const std::string> texts, std::size_t most);

// Numbers for words. 0 is padding and 1 a word that is not in the list; the list's words follow from 2.
class Vocabulary {
 public:
  explicit Vocabulary(const std::vector<std::string>& words);
  // The first `length` words of a text, padded behind.
  void append_ids(std::string_view text, std::size_t length, std::vector<float>& ids) const;

 private:
  std::unordered_map<std::string, std::int32_t> ids_;
};

}  // namespace parley
