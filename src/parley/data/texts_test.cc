#include <numeric>
#include <set>

#include "parley/data/read/plays.h"
#include "parley/data/read/tweets.h"
#include "parley/data/test_source.h"

namespace parley {
namespace {

using Bytes = std::vector<std::uint8_t>;

// One play with the speakers and what they say, as one line each.
void write_play(const TestFolder& folder, const std::vector<std::pair<std::string, std::string>>& speeches) {
  std::string xml = "<PLAY><TITLE>P</TITLE>";
  for (const auto& [speaker, text] : speeches) {
    xml += "<SPEECH><SPEAKER>" + speaker + "</SPEAKER><LINE>" + text + "</LINE></SPEECH>";
  }
  folder.write("shakespeare/moby_xml/p.xml", xml + "</PLAY>");
}

Options small_shakespeare() {
  Options options = options_for("shakespeare");
  options.set("length", std::int64_t{3});
  options.set("stride", std::int64_t{2});
  options.set("min_characters", std::int64_t{10});
  options.set("test_fraction", 0.4);
  return options;
}

TEST(Shakespeare, TellsTheNextCharacterAndTestsOnTheEndOfEachRole) {
  const TestFolder folder;
  write_play(folder, {{"A", "aaaaabbb"}, {"MUTE", "hm"}, {"A", "bbbbb"}, {"C", "cccccccccccccc"}});
  const TrainTest data = load(small_shakespeare(), only(folder));
  // A says 15 characters with the line ends, "aaaaabbb\nbbbbb\n": 9 for training, 6 for test. C too; MUTE is left out.
  const auto a = static_cast<std::uint8_t>(53 + 1), b = static_cast<std::uint8_t>(a + 1),
             c = static_cast<std::uint8_t>(b + 1);
  EXPECT_EQ(data.train->users, (std::vector<std::int32_t>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(data.test->users, (std::vector<std::int32_t>{0, 0, 1, 1}));
  EXPECT_EQ(std::get<0>(data.train->values), (Bytes{a, a, a, a, a, a, a, b, b, c, c, c, c, c, c, c, c, c}));
  EXPECT_EQ(data.train->labels, (std::vector<std::int32_t>{a - 1, b - 1, b - 1, c - 1, c - 1, c - 1}));
  EXPECT_EQ(data.test->labels, (std::vector<std::int32_t>{b - 1, 0, c - 1, 0}));
  EXPECT_TRUE(data.train->transform.scale.empty());
  Options options = small_shakespeare();
  options.set("max_sequences", std::int64_t{1});
  EXPECT_EQ(load(options, only(folder)).train->users, (std::vector<std::int32_t>{0, 1}));
}

TEST(Shakespeare, Refuses) {
  const TestFolder folder;
  expect_refusal([&] { load(options_for("shakespeare"), only(folder)); },
                 {"'shakespeare' was not found", "shakespeare/moby_xml"});
  write_play(folder, {{"A", "too little"}});
  expect_refusal([&] { load(options_for("shakespeare"), only(folder)); }, {"data.min_characters = 1000", "lower"});
  write_play(folder, {{"A", "quite enough for a test"}});
  Options options = small_shakespeare();
  options.set("normalize", std::string("standard"));
  expect_refusal([&] { load(options, only(folder)); }, {"data.normalize", "shakespeare", "token ids"});
}

TEST(Tweets, AreReadWithTheirQuotes) {
  const Tweets tweets = parse_tweets(
      "\"0\",\"1\",\"Mon\",\"NO_QUERY\",\"ann\",\"so, \"\"bad\"\"\"\n"
      "\"4\",\"2\",\"Tue\",\"NO_QUERY\",\"bob\",\"ok\"\n",
      "t.csv");
  EXPECT_EQ(tweets.labels, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(tweets.users, (std::vector<std::string>{"ann", "bob"}));
  EXPECT_EQ(tweets.texts[0], "so, \"bad\"");
}

TEST(Tweets, Refuse) {
  const auto refuse = [](const std::string& text, std::initializer_list<std::string_view> pieces) {
    expect_refusal([&] { parse_tweets(text, "t.csv"); }, pieces);
  };
  refuse("", {"t.csv: empty"});
  refuse("0,1,2,3,ann,hi\n0,1,2\n", {"t.csv:2", "found 3 fields"});
  refuse("2,1,2,3,ann,hi\n", {"t.csv:1", "polarity 0 or 4", "'2'"});
  refuse("0,1,2,3,ann,\"hi\n", {"t.csv:1:6", "never closed"});
}

TEST(Sentiment140, KnowsTheWordsOfTrainingTweetsOnly) {
  const TestFolder folder;
  std::string text;
  for (int i = 0; i < 10; ++i) text += fmt::format("{},1,2,3,user{},same word{}\n", i % 2 * 4, i % 3, i);
  folder.write("sentiment140/sentiment140_union.csv", text);
  Options options = options_for("sentiment140");
  options.set("length", std::int64_t{4});
  const TrainTest data = load(options, only(folder));
  EXPECT_EQ(data.train->size(), 8u);
  const auto& train = std::get<Values<float>>(data.train->values);
  const auto& test = std::get<Values<float>>(data.test->values);
  EXPECT_EQ(std::vector<float>(test.begin(), test.begin() + 4), (std::vector<float>{2, 1, 0, 0}));
  EXPECT_EQ(std::set<float>(train.begin(), train.end()), (std::set<float>{0, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  options.set("vocabulary", std::string("glove"));
  expect_refusal([&] { load(options, only(folder)); }, {"glove/glove.6B.50d.head.txt", "not found"});
  folder.write("glove/glove.6B.50d.head.txt", "the 0.1 0.2\nsame 0.3 0.4\n");
  const TrainTest glove = load(options, only(folder));
  EXPECT_EQ(std::get<Values<float>>(glove.train->values)[0], 3.0f);
  folder.write("glove/glove.6B.50d.head.txt", "the 0.1 0.2\nsame\n");
  expect_refusal([&] { load(options, only(folder)); }, {"glove.6B.50d.head.txt:2", "a word and its vector"});
}

TEST(RealTexts, Shakespeare) {
  const auto folder = DataRoots::standard("").find("shakespeare/moby_xml");
  if (folder.empty()) GTEST_SKIP() << "shakespeare/moby_xml was not found";
  const auto roles = read_plays(folder);
  EXPECT_EQ(std::count_if(roles.begin(), roles.end(), [](const Role& role) { return role.speeches >= 2; }), 1129);
  std::set<std::string> plays;
  std::size_t characters = 0;
  for (const auto& role : roles) {
    plays.insert(role.play);
    characters += role.text.size();
  }
  EXPECT_EQ(plays.size(), 37u);
  EXPECT_NEAR(static_cast<double>(characters), 4.3e6, 0.1e6);
}

TEST(RealTexts, Sentiment140) {
  LOAD_OR_SKIP(data, options_for("sentiment140"));
  EXPECT_EQ(data.train->size() + data.test->size(), 64200u);
  std::set<std::int32_t> users(data.train->users.begin(), data.train->users.end());
  users.insert(data.test->users.begin(), data.test->users.end());
  EXPECT_EQ(users.size(), 55817u);
  EXPECT_EQ(data.test->size(), 12840u);
  // In the file 489 of the first 500 are negative.
  const auto positive = std::accumulate(data.train->labels.begin(), data.train->labels.begin() + 500, 0);
  EXPECT_NEAR(positive, 0.54 * 500, 50);
}

}  // namespace
}  // namespace parley
