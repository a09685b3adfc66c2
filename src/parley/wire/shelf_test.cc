// Where a travelling model is, whoever is killed when: every step again from what is on disk, and every refusal.
#include "parley/wire/shelf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "parley/base/errors.h"
#include "parley/base/files.h"
#include "parley/base/temp_folder.h"
#include "parley/engine/test_experiment.h"

namespace parley::wire {
namespace {

constexpr const char* kWalk = R"(
[run]
rounds = 4
[data]
name = "synthetic"
rows = 80
features = 4
classes = 3
[partition]
kind = "iid"
clients = 4
[model]
name = "mlp"
hidden = [3]
[method]
name = "mm"
buffer = 2
)";

class Shelves : public testing::Test {
 protected:
  Shelves() : experiment(experiment_of(kWalk, {})), hosting(experiment, 1) {
    a.emplace(open("a")), b.emplace(open("b"));
  }

  struct Opened {
    std::unique_ptr<Shelf> shelf;
    Shelf* operator->() const { return shelf.get(); }
  };
  Opened open(const std::string& name, const std::string& run = "run") const {
    return {std::make_unique<Shelf>(folder / name, run, experiment, hosting)};
  }
  // As after a kill.
  void reopen(std::optional<Opened>& shelf, const std::string& name) const {
    shelf.reset();
    shelf.emplace(open(name));
  }
  // Model 0 begins at a and has made its first visit.
  void set_out() {
    (*a)->hold(0, hosting.new_traveller(0, 0));
    visit(*a, 0);
  }
  void visit(Opened& at, std::size_t node) {
    Traveller traveller = at->load(0, node);
    ClientSide side(experiment.client_setup(hosting.schema()));
    hosting.take_leave(traveller, hosting.visit(side, traveller));
    ++traveller.moves;
    ASSERT_TRUE(traveller.moves == at->journey() ? at->finish(0, traveller, "x") : at->leave(0, traveller));
  }
  void move(Opened& from, const std::string& from_name, Opened& to, const std::string& to_name) {
    const std::size_t moves = from->at(0).moves;
    ASSERT_EQ(to->take_in(0, moves, from_name, false, from->parcel(0)).refusal, "");
    ASSERT_TRUE(from->promise(0, to_name));
    ASSERT_EQ(to->commit(0, moves, from_name).refusal, "");
    ASSERT_TRUE(from->let_go(0));
  }

  TempFolder folder;
  const Experiment experiment;
  Hosting hosting;
  std::optional<Opened> a, b;
};

TEST_F(Shelves, AModelArrivesAsItLeftWhateverIsKilledInBetween) {
  set_out();
  const std::string parcel = (*a)->parcel(0);
  reopen(a, "a");
  EXPECT_EQ((*a)->at(0).standing, Standing::leaving);
  ASSERT_EQ((*b)->take_in(0, 1, "a", false, parcel).refusal, "");
  reopen(b, "b");
  EXPECT_EQ((*b)->at(0).standing, Standing::pending);              // it is still a's
  ASSERT_EQ((*b)->take_in(0, 1, "a", false, parcel).refusal, "");  // a was killed, and sends it again
  ASSERT_TRUE((*a)->promise(0, "b"));
  reopen(a, "a");
  EXPECT_EQ((*a)->at(0).standing, Standing::promised);
  EXPECT_EQ((*a)->at(0).peer, "b");
  ASSERT_EQ((*b)->commit(0, 1, "a").refusal, "");
  ASSERT_EQ((*b)->commit(0, 1, "a").refusal, "");  // the answer was lost
  ASSERT_TRUE((*a)->let_go(0));
  reopen(a, "a");
  reopen(b, "b");
  EXPECT_EQ((*a)->at(0).standing, Standing::gone);
  EXPECT_FALSE(std::filesystem::exists(folder / "a/0.1.safetensors"));
  EXPECT_EQ((*b)->at(0).standing, Standing::held);
  EXPECT_EQ((*b)->load(0, 1).host, 1u);
  EXPECT_EQ((*b)->load(0, 1).buffer.size(), 1u);
  visit(*b, 1);
  EXPECT_EQ((*b)->load(0, 1).round, 2u);  // the buffer of two was averaged
}

TEST_F(Shelves, WhatIsNotBeyondWhatIsKnownIsStale) {
  set_out();
  const std::string first = (*a)->parcel(0);
  move(*a, "a", *b, "b");
  const Receipt held = (*b)->take_in(0, 1, "a", false, first);
  EXPECT_TRUE(held.stale);
  EXPECT_NE(held.refusal.find("this is move 1 of model 0, and here move 1 is known: it is stale"), std::string::npos)
      << held.refusal;
  visit(*b, 1);
  move(*b, "b", *a, "a");
  EXPECT_TRUE((*b)->take_in(0, 1, "a", false, first).stale);
  EXPECT_TRUE((*a)->take_in(0, 1, "a", false, first).stale);
  EXPECT_EQ((*a)->at(0).standing, Standing::held);
}

TEST_F(Shelves, AModelCannotBeInTwoPlaces) {
  set_out();
  const Receipt second = (*a)->would_take(0, 2, 100, "b", false);
  EXPECT_NE(second.refusal.find("it cannot be elsewhere"), std::string::npos) << second.refusal;
}

TEST_F(Shelves, OnlyWhoSentAModelCanCommitIt) {
  set_out();
  ASSERT_EQ((*b)->take_in(0, 1, "a", false, (*a)->parcel(0)).refusal, "");
  EXPECT_TRUE((*b)->commit(0, 1, "c").missing);
  EXPECT_TRUE((*b)->commit(0, 2, "a").missing);
  EXPECT_NE((*b)->commit(9, 1, "a").refusal, "");
  EXPECT_EQ((*b)->at(0).standing, Standing::pending);
}

TEST_F(Shelves, WhatWasPromisedToALostFolderIsTakenBack) {
  set_out();
  ASSERT_EQ((*b)->take_in(0, 1, "a", false, (*a)->parcel(0)).refusal, "");
  ASSERT_TRUE((*a)->promise(0, "b"));
  b.reset();
  std::filesystem::remove_all(folder / "b");
  b.emplace(open("b"));
  EXPECT_TRUE((*b)->commit(0, 1, "a").missing);
  ASSERT_TRUE((*a)->take_back(0));
  EXPECT_EQ((*a)->load(0, 0).moves, 1u);
}

TEST_F(Shelves, TheEndIsTheEndForAll) {
  (*a)->hold(0, hosting.new_traveller(0, 0));
  for (std::size_t moves = 1; moves <= (*a)->journey(); ++moves) {
    Opened& here = moves % 2 == 1 ? *a : *b;
    visit(here, moves % 2 == 1 ? 0 : 1);
    if (moves == (*a)->journey()) break;
    moves % 2 == 1 ? move(*a, "a", *b, "b") : move(*b, "b", *a, "a");
  }
  ASSERT_TRUE((*b)->all_final());
  EXPECT_FALSE((*a)->all_final());
  EXPECT_NE((*a)->take_in(0, 3, "b", true, (*b)->parcel(0)).refusal, "");  // no end before the end
  ASSERT_EQ((*a)->take_in(0, 4, "b", true, (*b)->parcel(0)).refusal, "");
  ASSERT_EQ((*a)->take_in(0, 4, "b", true, (*b)->parcel(0)).refusal, "");  // said twice
  reopen(a, "a");
  EXPECT_TRUE((*a)->all_final());
}

TEST_F(Shelves, WhatIsNoModelOfThisRunIsRefusedAndTouchesNothing) {
  set_out();
  const std::string parcel = (*a)->parcel(0);
  const auto refusal = [&](std::size_t model, std::size_t moves, const std::string& bytes) {
    const Receipt receipt = (*b)->take_in(model, moves, "a", false, bytes);
    EXPECT_EQ((*b)->at(0).standing, Standing::absent);
    return receipt.refusal;
  };
  EXPECT_NE(refusal(1, 1, parcel).find("there are 1 models here"), std::string::npos);
  EXPECT_NE(refusal(0, 2, parcel).find("it has made 1 moves, and not 2"), std::string::npos);
  EXPECT_NE(refusal(0, 99, parcel).find("not on this model's journey"), std::string::npos);
  EXPECT_NE(refusal(0, 0, parcel).find("not on this model's journey"), std::string::npos);
  EXPECT_NE(refusal(0, 1, ""), "");
  EXPECT_NE(refusal(0, 1, parcel.substr(0, parcel.size() / 2)), "");
  EXPECT_NE(refusal(0, 1, std::string((*b)->longest() + 1, 'x')).find("more than any model here has"),
            std::string::npos);
  b.reset();
  b.emplace(open("other", "another run"));
  EXPECT_NE(refusal(0, 1, parcel).find("it is of another experiment"), std::string::npos);
}

// The checksum catches chance; this is for who computes it anew.
TEST_F(Shelves, ChangedBytesAreRefused) {
  set_out();
  const std::string parcel = (*a)->parcel(0);
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 dice(seed);
  for (int round = 0; round < 200; ++round) {
    std::string bytes = parcel;
    bytes[dice() % bytes.size()] ^= static_cast<char>(1 + dice() % 255);
    const std::string refusal = (*b)->take_in(0, 1, "a", false, bytes).refusal;
    EXPECT_NE(refusal, "");
    EXPECT_TRUE(std::ranges::all_of(refusal, [](char c) { return c >= ' ' && c <= '~'; })) << refusal;
  }
}

TEST_F(Shelves, AFolderIsOfOneRunAndHasOnePeer) {
  set_out();
  EXPECT_THROW(open("a"), InputError);
  a.reset();
  EXPECT_THROW(open("a", "another run"), InputError);
}

TEST(ShelvesOfMany, VisitsAreSharedEqually) {
  const TempFolder folder;
  const Experiment uneven = experiment_of(kWalk, {"method.models=3", "peer.visits=4"});
  const Hosting hosting(uneven, 1);
  EXPECT_THROW(Shelf(folder.path(), "run", uneven, hosting), InputError);
}

}  // namespace
}  // namespace parley::wire
