// The named data sets that are texts: rows of token ids, 0 being padding.
#include <algorithm>

#include "parley/base/errors.h"
#include "parley/base/random.h"
#include "parley/data/characters.h"
#include "parley/data/formats.h"
#include "parley/data/locate.h"
#include "parley/data/read/labels.h"
#include "parley/data/read/plays.h"
#include "parley/data/read/tweets.h"
#include "parley/data/select.h"
#include "parley/data/word_vectors.h"
#include "parley/data/words.h"

namespace parley {
namespace {

namespace fs = std::filesystem;

Dataset tokens_of(std::size_t length, std::size_t classes, std::vector<std::string> class_names) {
  Dataset data;
  data.shape = {static_cast<std::int64_t>(length)};
  data.content = Content::tokens;
  data.classes = classes;
  data.class_names = std::move(class_names);
  return data;
}

// ── shakespeare ──

struct Cut {
  std::size_t length, stride, most;  // most = 0: no limit
};

// Sequences of `length` characters with the one that follows as label, all inside the text.
void append_sequences(std::span<const std::uint8_t> text, const Cut& cut, std::int32_t user,
                      std::vector<std::uint8_t>& tokens, Dataset& data) {
  std::size_t count = 0;
  for (std::size_t start = 0; start + cut.length < text.size(); start += cut.stride) {
    if (cut.most > 0 && count++ == cut.most) return;
    for (const auto character : text.subspan(start, cut.length)) tokens.push_back(character + 1);
    data.labels.push_back(text[start + cut.length]);
    data.users.push_back(user);
  }
}

// ── sentiment140 ──

using Rows = std::vector<std::uint32_t>;

std::vector<std::string> pick(const std::vector<std::string>& from, const Rows& rows) {
  std::vector<std::string> picked;
  for (const auto row : rows) picked.push_back(from[row]);
  return picked;
}

std::vector<std::string> known_words(std::span<const std::string> training, const Options& options,
                                     const DataRoots& roots) {
  const auto most = static_cast<std::size_t>(options.integer("words"));
  if (options.text("vocabulary") == "training") return common_words(training, most);
  const std::string file = "glove.6B.50d.head.txt";
  const fs::path folder = folder_with(roots, "sentiment140", "glove", file, "put GloVe's vectors there");
  return read_word_vectors(folder / file, most).words;
}

// Training and test rows. The file has long stretches of one mood; in a random order neither the first rows
// (data.limit) nor neighbouring users (partition.users_per_client) are of one kind.
std::pair<Rows, Rows> split_tweets(std::size_t count, const Options& options) {
  const auto seed = static_cast<std::uint64_t>(options.integer("split_seed"));
  auto [train, test] = hold_out_row_numbers(count, options.real("test_fraction"), seed);
  Stream order(seed, "data.order");
  order.shuffle(std::span(train));
  order.shuffle(std::span(test));
  return {std::move(train), std::move(test)};
}

Tweets find_tweets(const DataRoots& roots) {
  const std::string file = "sentiment140_union.csv";
  const fs::path folder =
      folder_with(roots, "sentiment140", "sentiment140", file, "put the tweets of Sentiment140 there");
  Tweets tweets = read_tweets(folder / file);
  if (tweets.labels.size() < 2) fail("{}: one tweet; expected two or more", (folder / file).string());
  return tweets;
}

Dataset tweets_as_tokens(const Tweets& tweets, const Rows& rows, const Vocabulary& vocabulary, std::size_t length) {
  Dataset data = tokens_of(length, 2, {"negative", "positive"});
  std::vector<float> ids;
  ids.reserve(rows.size() * length);
  for (const auto row : rows) {
    vocabulary.append_ids(tweets.texts[row], length, ids);
    data.labels.push_back(tweets.labels[row]);
  }
  data.values = std::move(ids);
  return data;
}

}  // namespace

TrainTest load_shakespeare(const Options& options, const DataRoots& roots) {
  const auto size = [&](const char* key) { return static_cast<std::size_t>(options.integer(key)); };
  const Cut cut{size("length"), size("stride"), size("max_sequences")};
  const fs::path folder = folder_with(roots, "shakespeare", "shakespeare", "moby_xml",
                                      "unpack the plays as XML there (ibiblio.org/xml/examples/shakespeare)");
  Dataset train = tokens_of(cut.length, kCharacters, character_names()), test = train;
  std::vector<std::uint8_t> train_tokens, test_tokens;
  std::int32_t user = 0;
  for (const Role& role : read_plays(folder / "moby_xml")) {
    if (role.text.size() < size("min_characters")) continue;
    const auto text = character_classes(role.text);
    const auto kept = static_cast<std::size_t>(static_cast<double>(text.size()) * (1 - options.real("test_fraction")));
    append_sequences(std::span(text).first(kept), cut, user, train_tokens, train);
    append_sequences(std::span(text).subspan(kept), cut, user, test_tokens, test);
    ++user;
  }
  if (train.labels.empty() || test.labels.empty()) {
    fail(
        "data.min_characters = {}, length = {}, test_fraction = {}: no role says enough for a training and a test "
        "sequence; lower them",
        size("min_characters"), cut.length, options.real("test_fraction"));
  }
  train.values = std::move(train_tokens);
  test.values = std::move(test_tokens);
  return share(std::move(train), std::move(test));
}

TrainTest load_sentiment140(const Options& options, const DataRoots& roots) {
  const Tweets tweets = find_tweets(roots);
  const auto length = static_cast<std::size_t>(options.integer("length"));
  const auto [train_rows, test_rows] = split_tweets(tweets.labels.size(), options);
  const Vocabulary vocabulary(known_words(pick(tweets.texts, train_rows), options, roots));
  Dataset train = tweets_as_tokens(tweets, train_rows, vocabulary, length);
  Dataset test = tweets_as_tokens(tweets, test_rows, vocabulary, length);
  NumberedUsers users = number_users(pick(tweets.users, train_rows), pick(tweets.users, test_rows));
  train.users = std::move(users.train);
  test.users = std::move(users.test);
  return share(std::move(train), std::move(test));
}

std::vector<std::string> token_words(const Options& data, const DataRoots& roots) {
  if (const std::string& name = data.text("name"); name != "sentiment140") {
    fail("data.name = \"{}\": its inputs are not words; expected sentiment140", name);
  }
  const Tweets tweets = find_tweets(roots);
  return known_words(pick(tweets.texts, split_tweets(tweets.labels.size(), data).first), data, roots);
}

}  // namespace parley
