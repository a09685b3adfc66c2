#include "parley/data/words.h"

#include <gtest/gtest.h>

#include "parley/data/characters.h"

namespace parley {
namespace {

using Words = std::vector<std::string>;

TEST(Words, AreCutAtWhatIsNoLetter) {
  EXPECT_EQ(words_of("It's GREAT, isn't-it?! 24h"), (Words{"it's", "great", "isn't", "it", "24h"}));
  EXPECT_EQ(words_of("caf\xc3\xa9..."), (Words{"caf\xc3\xa9"}));
  EXPECT_TRUE(words_of(" ?!").empty());
}

TEST(Words, LinksAndNamesBecomeOneWordEach) {
  EXPECT_EQ(words_of("@some_one: see http://a.b/c?d=1, or www.x.y ok"),
            (Words{"<user>", "see", "<url>", "or", "<url>", "ok"}));
  EXPECT_EQ(words_of("me @ home"), (Words{"me", "home"}));
}

TEST(Words, TheCommonestComeFirst) {
  const Words texts = {"b a c", "b c", "d b"};
  EXPECT_EQ(common_words(texts, 3), (Words{"b", "c", "a"}));
  EXPECT_EQ(common_words(texts, 9), (Words{"b", "c", "a", "d"}));
}

TEST(Words, NumbersLeaveRoomForPaddingAndTheUnknown) {
  std::vector<float> ids;
  const Vocabulary vocabulary({"b", "c", "b"});
  vocabulary.append_ids("c x b", 5, ids);
  vocabulary.append_ids("b b c c", 2, ids);
  EXPECT_EQ(ids, (std::vector<float>{3, 1, 2, 0, 0, 2, 2}));
}

TEST(Characters, HaveEightyClasses) {
  const auto names = character_names();
  ASSERT_EQ(names.size(), kCharacters);
  const auto classes = character_classes("\n a~\xc3");
  EXPECT_EQ(names[classes[0]], "newline");
  EXPECT_EQ(names[classes[1]], "space");
  EXPECT_EQ(names[classes[2]], "a");
  EXPECT_EQ(names[classes[3]], "other");
  EXPECT_EQ(classes[4], classes[3]);
}

}  // namespace
}  // namespace parley
