#include "parley/data/words.h"

#include <algorithm>

namespace parley {
namespace {

constexpr float kPadding = 0, kUnknown = 1;
constexpr std::int32_t kFirstWord = 2;

bool in_word(char c) {
  const auto u = static_cast<unsigned char>(c);
  return (u >= 'a' && u <= 'z') || (u >= 'A' && u <= 'Z') || (u >= '0' && u <= '9') || u == '\'' || u >= 0x80;
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Where a link or a mention that begins at `at` ends; `at` itself when there is none.
std::size_t end_of_special(std::string_view text, std::size_t at, std::string& word) {
  const std::string_view rest = text.substr(at);
  if (rest.starts_with("http://") || rest.starts_with("https://") || rest.starts_with("www.")) {
    word = "<url>";
    return std::min(text.find_first_of(" \t\n", at), text.size());
  }
  if (rest.size() > 1 && rest[0] == '@' && (in_word(rest[1]) || rest[1] == '_')) {
    word = "<user>";
    std::size_t end = at + 1;
    while (end < text.size() && (in_word(text[end]) || text[end] == '_')) ++end;
    return end;
  }
  return at;
}

}  // namespace

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    std::string word;
    std::size_t end = end_of_special(text, at, word);
    if (end == at) {
      while (end < text.size() && in_word(text[end])) word += lower(text[end++]);
    }
    if (!word.empty()) words.push_back(std::move(word));
    at = std::max(end, at + 1);
  }
  return words;
}

std::vector<std::string> common_words(std::span<const std::string> texts, std::size_t most) {
  std::unordered_map<std::string, std::size_t> counts;
  for (const auto& text : texts) {
    for (auto& word : words_of(text)) ++counts[std::move(word)];
  }
  std::vector<std::pair<std::string, std::size_t>> ranked(counts.begin(), counts.end());
  std::sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  std::vector<std::string> words;
  for (std::size_t i = 0; i < std::min(most, ranked.size()); ++i) words.push_back(std::move(ranked[i].first));
  return words;
}

Vocabulary::Vocabulary(const std::vector<std::string>& words) {
  for (const auto& word : words) ids_.try_emplace(word, kFirstWord + static_cast<std::int32_t>(ids_.size()));
}

void Vocabulary::append_ids(std::string_view text, std::size_t length, std::vector<float>& ids) const {
  const auto words = words_of(text);
  for (std::size_t i = 0; i < length; ++i) {
    if (i >= words.size()) {
      ids.push_back(kPadding);
      continue;
    }
    const auto found = ids_.find(words[i]);
    ids.push_back(found == ids_.end() ? kUnknown : static_cast<float>(found->second));
  }
}

}  // namespace parley
