#include "parley/data/row_lists.h"

#include <gtest/gtest.h>

namespace parley {
namespace {

TEST(RowLists, ByOwnerLeavesOutWhatNobodyHolds) {
  const std::vector<std::uint32_t> owners{1, RowLists::kNobody, 0, 1, 3, RowLists::kNobody};
  const RowLists lists = RowLists::by_owner(owners, 4);
  EXPECT_EQ(lists, RowLists({{2}, {0, 3}, {}, {4}}));
  EXPECT_EQ(lists.rows(), 4u);
}

TEST(RowLists, ByOwnerMayLeaveEveryListEmpty) {
  const std::vector<std::uint32_t> owners(3, RowLists::kNobody);
  EXPECT_EQ(RowLists::by_owner(owners, 2), RowLists({{}, {}}));
  EXPECT_EQ(RowLists::by_owner({}, 1).size(), 1u);
}

}  // namespace
}  // namespace parley
