// Sentiment140 (Go et al. 2009): one tweet per line, quoted fields: polarity (0 negative, 4 positive), id, date, query,
// user, text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace parley {

struct Tweets {
  std::vector<std::int32_t> labels;  // 0 negative, 1 positive
  std::vector<std::string> users, texts;
};

// Throws InputError "name:line: …".
Tweets parse_tweets(std::string_view text, const std::string& name);
Tweets read_tweets(const std::filesystem::path& path);

}  // namespace parley
