#include "parley/data/word_vectors.h"

#include <gtest/gtest.h>

#include "parley/data/test_folder.h"
#include "parley/data/test_source.h"

namespace parley {
namespace {

TEST(WordVectors, AreReadInTheOrderOfTheFile) {
  const TestFolder folder;
  folder.write("v.txt", "the 0.5 -2\n, 1e-3 4\nthe 9 9\n<user> 3 7");
  const WordVectors vectors = read_word_vectors(folder.path() / "v.txt", 100);
  EXPECT_EQ(vectors.words, (std::vector<std::string>{"the", ",", "<user>"}));
  EXPECT_EQ(vectors.width, 2u);
  EXPECT_EQ(vectors.values, (std::vector<float>{0.5f, -2.0f, 1e-3f, 4.0f, 3.0f, 7.0f}));
  EXPECT_EQ(read_word_vectors(folder.path() / "v.txt", 2).values.size(), 4u);
}

// The same words under the same numbers as in the rows: token t stands for words[t - 2].
TEST(WordVectors, FindTheWordsOfADataSetsTokens) {
  const TestFolder folder;
  folder.write("sentiment140/sentiment140_union.csv",
               "0,1,2,3,ann,good day\n4,1,2,3,ann,good day\n4,1,2,3,bob,good day\n");
  folder.write("glove/glove.6B.50d.head.txt", "day 1 2\nnever 3 4\ngood 5 6\n");
  const DataRoots roots{{folder.path()}};
  for (const char* vocabulary : {"training", "glove"}) {
    Options options = options_for("sentiment140");
    options.set("length", std::int64_t{2});
    options.set("vocabulary", std::string(vocabulary));
    const auto words = token_words(options, roots);
    const TrainTest data = load(options, roots);
    const auto& tokens = std::get<Values<float>>(data.train->values);
    ASSERT_EQ(words.size(), vocabulary == std::string("glove") ? 3u : 2u);
    EXPECT_EQ(words[static_cast<std::size_t>(tokens[0]) - 2], "good") << vocabulary;
    EXPECT_EQ(words[static_cast<std::size_t>(tokens[1]) - 2], "day") << vocabulary;
  }
  expect_refusal([&] { token_words(options_for("mnist"), roots); }, {"data.name = \"mnist\"", "not words"});
}

TEST(WordVectors, DamagedFilesAreRefusedByLine) {
  const TestFolder folder;
  const auto refusal = [&](const std::string& text, std::initializer_list<std::string_view> parts) {
    folder.write("v.txt", text);
    expect_refusal([&] { read_word_vectors(folder.path() / "v.txt", 100); }, parts);
  };
  refusal("the 1 2\nof 1\n", {"v.txt:2", "a vector of 1 numbers; expected 2"});
  refusal("the 1 2\nof 1 2 3\n", {"v.txt:2", "a vector of 3 numbers; expected 2"});
  refusal("the 1 two\n", {"v.txt:1", "'two' is no finite number"});
  refusal("the 1 nan\n", {"v.txt:1", "'nan' is no finite number"});
  refusal("the 1 2\n\n", {"v.txt:2", "a word and its vector"});
  refusal(" 1 2\n", {"v.txt:1", "a word and its vector"});
}

}  // namespace
}  // namespace parley
