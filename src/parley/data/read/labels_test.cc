#include "parley/data/read/labels.h"

#include "parley/data/test_folder.h"

namespace parley {
namespace {

using Numbers = std::vector<std::int32_t>;

TEST(Labels, CountsClasses) {
  EXPECT_EQ(count_classes(Numbers{0, 4, 2}, 0, "f"), 5u);
  EXPECT_EQ(count_classes(Numbers{0, 4, 2}, 10, "f"), 10u);
  expect_refusal([] { count_classes(Numbers{0, 4}, 4, "f"); }, {"f", "row 1", "label 4", "0 to 3"});
  expect_refusal([] { count_classes(Numbers{-1}, 0, "f"); }, {"f", "label -1"});
  expect_refusal([] { count_classes(Numbers{2'000'000'000}, 0, "f"); }, {"f", "out of range"});
}

TEST(Users, NumbersStayAndNamesAreNumberedOnce) {
  const TestFolder folder;
  EXPECT_EQ(read_users(folder.write("u", "7\r\n3\n7")), (std::vector<std::string>{"7", "3", "7"}));
  expect_refusal([&] { read_users(folder.write("e", "a\n\nb\n")); }, {"e:2", "empty line"});
  EXPECT_EQ(number_users({"7", "3"}, {"9"}).train, (Numbers{7, 3}));
  const NumberedUsers named = number_users({"bob", "7", "bob"}, {"7", "eve"});
  EXPECT_EQ(named.train, (Numbers{0, 1, 0}));
  EXPECT_EQ(named.test, (Numbers{1, 2}));
}

}  // namespace
}  // namespace parley
