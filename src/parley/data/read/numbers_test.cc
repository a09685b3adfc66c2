#include "parley/data/read/numbers.h"

#include "parley/data/test_folder.h"

namespace parley {
namespace {

TEST(NumberTable, ReadsRowsWithAnyBlanks) {
  EXPECT_EQ(parse_number_table<float>(" 1.5e+001 -2\n\t3 4.25\r\n", 2, "t"), (std::vector<float>{15, -2, 3, 4.25}));
  EXPECT_EQ(parse_number_table<std::int32_t>("7 8 -9", 3, "t"), (std::vector<std::int32_t>{7, 8, -9}));
}

TEST(NumberTable, ReadsPackedFiles) {
  const TestFolder folder;
  EXPECT_EQ(read_number_table<float>(folder.write_gz("t.gz", "1 2\n"), 2), (std::vector<float>{1, 2}));
}

TEST(NumberTable, Refuses) {
  const auto refuse = [](const std::string& text, std::initializer_list<std::string_view> pieces) {
    expect_refusal([&] { parse_number_table<float>(text, 2, "t"); }, pieces);
  };
  refuse("", {"t: empty", "2 numbers"});
  refuse("1 2\n3\n", {"t:2", "expected 2 numbers, found 1"});
  refuse("1 2\n\n3 4\n", {"t:2", "found 0"});
  refuse("1 2 3\n", {"t:1", "found 3"});
  refuse("1 2\n3 4x\n", {"t:2", "finite number", "'4x'"});
  refuse("1 nan\n", {"t:1", "'nan'"});
  refuse("1 1e99\n", {"t:1", "'1e99'"});
  expect_refusal([] { parse_number_table<std::int32_t>("1\n2.5\n", 1, "t"); }, {"t:2", "whole number", "'2.5'"});
}

}  // namespace
}  // namespace parley
