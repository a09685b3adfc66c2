#include "parley/data/read/csv.h"

#include <rapidcheck.h>

#include "parley/data/test_folder.h"

namespace parley {
namespace {

using Texts = std::vector<std::string>;

TEST(Csv, ReadsFeaturesLabelsUsersAndTargets) {
  const CsvTable table = parse_csv("a,label,who,b,t\r\n1,0,ann,-2.5,7\r\n\r\n 3 ,1,\"bob, \"\"jr\"\"\",1e2,8",
                                   {.label = "label", .user = "who", .targets = {"t"}, .ignored = {}}, "f.csv");
  EXPECT_EQ(table.rows, 2u);
  EXPECT_EQ(table.features, (Texts{"a", "b"}));
  EXPECT_EQ(table.values, (std::vector<float>{1, -2.5, 3, 100}));
  EXPECT_EQ(table.targets, (std::vector<float>{7, 8}));
  EXPECT_EQ(table.labels, (Texts{"0", "1"}));
  EXPECT_EQ(table.users, (Texts{"ann", "bob, \"jr\""}));
}

TEST(Csv, RefusalsNameFileLineAndColumn) {
  const auto refuse = [](const char* text, std::initializer_list<std::string_view> pieces) {
    expect_refusal([&] { parse_csv(text, {.label = "y", .user = {}, .targets = {}, .ignored = {}}, "f.csv"); }, pieces);
  };
  refuse("", {"f.csv", "empty"});
  refuse("x,y\n", {"f.csv", "no rows"});
  refuse("x,z\n1,2\n", {"f.csv:1", "unknown column 'y'", "x, z"});
  refuse("y\n1\n", {"f.csv:1", "no feature column"});
  refuse("x,x,y\n1,2,3\n", {"f.csv:1:2", "appears twice"});
  refuse("x,y\n1,0\nabc,1\n", {"f.csv:3:1", "'x'", "'abc'"});
  refuse("x,y\n1,0\n,1\n", {"f.csv:3:1", "''"});
  refuse("x,y\nnan,0\n", {"f.csv:2:1", "finite"});
  refuse("x,y\n1e99,0\n", {"f.csv:2:1", "finite"});
  refuse("x,y\n1\n", {"f.csv:2", "2 fields", "found 1"});
  refuse("x,y\n1,2,3\n", {"f.csv:2", "2 fields", "found 3"});
  refuse("x,y\n1,\n", {"f.csv:2:2", "found nothing"});
  refuse("x,y\n\"1,0\n", {"f.csv:2:1", "never closed"});
  refuse("x,y\n\"1\"2,0\n", {"f.csv:2:1", "after the closing quote"});
  // A line break inside quotes does not confuse the line numbers.
  refuse("x,y\n1,\"a\nb\"\n?,c\n", {"f.csv:4:1", "'?'"});
}

TEST(Csv, LabelsAreNumbersOrNames) {
  EXPECT_EQ(number_labels({"2", "0"}, "a", {"1"}, "b").train, (std::vector<std::int32_t>{2, 0}));
  const CsvClasses classes = number_labels({"dog", "cat", "dog"}, "a", {"cat"}, "b");
  EXPECT_EQ(classes.names, (Texts{"cat", "dog"}));
  EXPECT_EQ(classes.train, (std::vector<std::int32_t>{1, 0, 1}));
  EXPECT_EQ(classes.test, (std::vector<std::int32_t>{0}));
  expect_refusal([] { number_labels({"0", "-1"}, "a.csv", {}, "b"); }, {"a.csv", "row 1", "'-1'"});
  expect_refusal([] { number_labels({"0", "1.5"}, "a.csv", {}, "b"); }, {"a.csv", "'1.5'"});
  expect_refusal([] { number_labels({"dog"}, "a", {"dig"}, "b.csv"); }, {"b.csv", "did you mean 'dog'"});
}

TEST(Csv, NeverCrashes) {
  EXPECT_TRUE(rc::check("any text", [](const std::vector<std::uint8_t>& choices) {
    static const char* const pieces[] = {",", "\n", "\"", "1", "x", "\r\n", " ", "-"};
    std::string text = "x,y\n";
    for (const auto choice : choices) text += pieces[choice % 8];
    try {
      const CsvTable table = parse_csv(text, {.label = "y", .user = {}, .targets = {}, .ignored = {}}, "f");
      RC_ASSERT(table.values.size() == table.rows);
    } catch (const InputError&) {
    }
  }));
}

}  // namespace
}  // namespace parley
