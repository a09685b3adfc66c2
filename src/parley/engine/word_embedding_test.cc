#include "parley/engine/word_embedding.h"

#include <gtest/gtest.h>

#include "parley/data/test_source.h"

namespace parley {
namespace {

// Two words, "day" and "good", as tokens 2 and 3, and vectors for other words too.
class WordEmbedding : public ::testing::Test {
 protected:
  WordEmbedding() {
    folder_.write("sentiment140/sentiment140_union.csv",
                  "0,1,2,3,ann,good day\n4,1,2,3,ann,good day\n4,1,2,3,bob,good day\n");
    folder_.write("v.txt", "never 7 8\ngood 5 6\n");
    settings_.data = options_for("sentiment140");
    settings_.data.set("root", folder_.path().string());
    settings_.model = Options("model", {{"vectors", std::string("v.txt"), ""},
                                        {"embedding", std::int64_t{2}, ""},
                                        {"vocabulary", std::int64_t{4}, ""}});
  }

  Flat loaded() const {
    const Layout layout({{.name = "fc.weight", .shape = {1}}, {.name = "embedding.weight", .shape = {4, 2}}});
    Flat weights(9, 0.25f);
    use_word_vectors(settings_, layout, weights);
    return weights;
  }
  void expect_refused(std::initializer_list<std::string_view> pieces) const {
    expect_refusal([&] { loaded(); }, pieces);
  }

  TestFolder folder_;
  Settings settings_;
};

TEST_F(WordEmbedding, PutsVectorsToTheirWordsAndLeavesTheRest) {
  EXPECT_EQ(loaded(), (Flat{.25f, .25f, .25f, .25f, .25f, .25f, .25f, 5.0f, 6.0f}));
  settings_.model.set("vectors", std::string());
  EXPECT_EQ(loaded(), Flat(9, 0.25f));
}

TEST_F(WordEmbedding, RefusesWhatDoesNotFit) {
  settings_.model.set("embedding", std::int64_t{3});
  expect_refused({"model.embedding = 3", "v.txt have 2 numbers; set 2"});
  settings_.model.set("embedding", std::int64_t{2});
  settings_.model.set("vocabulary", std::int64_t{3});
  expect_refused({"model.vocabulary = 3", "know 2 words; expected 4 or more"});
  settings_.model.set("vocabulary", std::int64_t{4});
  folder_.write("v.txt", "nunca 7 8\n");
  expect_refused({"model.vectors = \"v.txt\"", "0 of the data's 2 words"});
  settings_.model.set("vectors", std::string("w.txt"));
  expect_refused({"model.vectors", "w.txt"});
  settings_.data = options_for("mnist");
  expect_refused({"data.name = \"mnist\"", "not words"});
}

TEST_F(WordEmbedding, IsRefusedBesideWeightsThatAreGiven) {
  expect_refusal([&] { refuse_word_vectors(settings_); }, {"model.vectors = \"v.txt\"", "model.init"});
  settings_.model.set("vectors", std::string());
  EXPECT_NO_THROW(refuse_word_vectors(settings_));
}

}  // namespace
}  // namespace parley
