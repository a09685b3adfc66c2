#include "parley/wire/journal.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "parley/base/errors.h"
#include "parley/base/temp_folder.h"

namespace parley::wire {
namespace {

using Rounds = std::map<std::size_t, std::size_t>;

void change(const std::filesystem::path& file, const char* statement) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, statement, nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(database);
}

TEST(Journal, KnowsWhoseAnswersCountedAfterAKill) {
  const TempFolder folder;
  {
    Journal journal(folder / "j", "run");
    EXPECT_EQ(journal.begin_round(1), Rounds{});
    journal.accepted(1, std::vector<Counted>{{0, 1}, {2, 1}});
    EXPECT_EQ(journal.begin_round(2), (Rounds{{0, 1}, {2, 1}}));
    journal.accepted(2, std::vector<Counted>{{2, 2}});
  }
  Journal journal(folder / "j", "run");
  // Killed before the checkpoint of round 2: it is played again, as if it had never been.
  EXPECT_EQ(journal.begin_round(2), (Rounds{{0, 1}, {2, 1}}));
  journal.accepted(2, std::vector<Counted>{{2, 2}});
  EXPECT_EQ(journal.begin_round(3), (Rounds{{0, 1}, {2, 2}}));
  // What 2 answered in round 3 was an invitation of round 2, and that is what its records go by.
  journal.accepted(3, std::vector<Counted>{{0, 3}, {2, 2}});
  EXPECT_EQ(journal.begin_round(4), (Rounds{{0, 3}, {2, 2}}));
  EXPECT_EQ(journal.begin_round(3), (Rounds{{0, 1}, {2, 2}}));
}

TEST(Journal, RemembersTheMembers) {
  const TempFolder folder;
  {
    Journal journal(folder / "j", "run");
    EXPECT_TRUE(journal.members().empty());
    const Member members[] = {{"b", 1, 7, "m"}, {"a", 0, 5}};
    journal.remember(members);
  }
  const auto members = Journal(folder / "j", "run").members();
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[0].name, "a");
  EXPECT_EQ(members[1].examples, 7u);
  EXPECT_EQ(members[1].moments, "m");
}

TEST(Journal, IsOfOneRun) {
  const TempFolder folder;
  { Journal journal(folder / "j", "one"); }
  EXPECT_THROW(Journal(folder / "j", "other"), InputError);
}

TEST(Audit, IsWholeAcrossRestartsAndShowsWhatWasChanged) {
  const TempFolder folder;
  const auto file = folder / "j";
  for (int start = 0; start < 2; ++start) {
    Journal journal(file, "run");
    journal.audit("joined", "a", 0, "5 examples");
    journal.audit("accepted", "a", 1, "");
  }
  EXPECT_EQ(first_broken(read_audit(file)), 0);
  ASSERT_EQ(read_audit(file).size(), 4u);
  change(file, "update audit set node = 'b' where number = 3");
  EXPECT_EQ(first_broken(read_audit(file)), 3);
  change(file, "update audit set node = 'a' where number = 3");
  EXPECT_EQ(first_broken(read_audit(file)), 0);
  change(file, "delete from audit where number = 2");
  EXPECT_EQ(first_broken(read_audit(file)), 3);
}

TEST(Audit, RefusesWhatIsNoJournal) {
  const TempFolder folder;
  change(folder / "x", "create table other (a)");
  EXPECT_THROW(read_audit(folder / "x"), InputError);
  EXPECT_THROW(read_audit(folder / "missing"), InputError);
}

}  // namespace
}  // namespace parley::wire
