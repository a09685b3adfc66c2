#include "parley/data/read/tweets.h"

#include "parley/base/counted.h"
#include "parley/base/errors.h"
#include "parley/data/read/bytes.h"
#include "parley/data/read/csv_records.h"

namespace parley {

Tweets parse_tweets(std::string_view text, const std::string& name) {
  enum Column : std::size_t { kPolarity, kId, kDate, kQuery, kUser, kText, kColumns };
  CsvRecords records(text, name);
  std::vector<std::string_view> fields;
  Tweets tweets;
  while (records.next(fields)) {
    if (fields.size() != kColumns) {
      fail("{}:{}: expected polarity, id, date, query, user and text, found {}", name, records.line(),
           counted(fields.size(), "field"));
    }
    if (fields[kPolarity] != "0" && fields[kPolarity] != "4") {
      fail("{}:{}: expected the polarity 0 or 4, found '{}'", name, records.line(), fields[kPolarity]);
    }
    tweets.labels.push_back(fields[kPolarity] == "4" ? 1 : 0);
    tweets.users.emplace_back(fields[kUser]);
    tweets.texts.emplace_back(fields[kText]);
  }
  if (tweets.labels.empty()) fail("{}: empty; expected one tweet per line", name);
  return tweets;
}

Tweets read_tweets(const std::filesystem::path& path) {
  return parse_tweets(read_unpacked(path), path.string());
}

}  // namespace parley
