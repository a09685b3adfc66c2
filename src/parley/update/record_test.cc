#include "parley/update/record.h"

#include <gtest/gtest.h>

namespace parley {
namespace {

TEST(ClientMemory, IsUnchangedUntilSomethingIsKept) {
  ClientMemory nobody, somebody(ClientRecord{{"c", Flat{1.0f}}});
  EXPECT_EQ(nobody.known(), nullptr);
  EXPECT_EQ(somebody.known()->at("c"), Flat{1.0f});
  EXPECT_FALSE(nobody.take());
  EXPECT_FALSE(somebody.take());
}

TEST(ClientMemory, KeepReplacesEverything) {
  ClientMemory memory(ClientRecord{{"c", Flat{1.0f}}});
  memory.keep({{"d", Flat{2.0f}}});
  EXPECT_EQ(memory.known()->at("c"), Flat{1.0f}) << "what was known stays known during the round";
  EXPECT_EQ(memory.take(), (ClientRecord{{"d", Flat{2.0f}}}));
  EXPECT_FALSE(memory.take());
}

TEST(ClientMemory, AmendAddsToWhatIsKeptOrElseKnown) {
  ClientMemory fresh;
  fresh.amend({{"slot", Flat{5.0f}}});
  EXPECT_EQ(fresh.take(), (ClientRecord{{"slot", Flat{5.0f}}}));

  ClientMemory known(ClientRecord{{"c", Flat{1.0f}}, {"slot", Flat{5.0f}}});
  known.amend({{"slot", Flat{6.0f}}});
  EXPECT_EQ(known.take(), (ClientRecord{{"c", Flat{1.0f}}, {"slot", Flat{6.0f}}}));

  ClientMemory kept(ClientRecord{{"c", Flat{1.0f}}});
  kept.keep({{"d", Flat{2.0f}}});
  kept.amend({{"slot", Flat{7.0f}}});
  EXPECT_EQ(kept.take(), (ClientRecord{{"d", Flat{2.0f}}, {"slot", Flat{7.0f}}}));
}

}  // namespace
}  // namespace parley
