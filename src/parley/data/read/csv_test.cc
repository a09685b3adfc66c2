#include "parley/data/read/csv.h"

#include <rapidcheck.h>

#include "parley/data/test_folder.h"

namespace parley {
namespace {

using Texts = std::vector<std::string>;
using Values = std::vector<float>;
using Missing = CsvReading::Missing;

CsvTable table_of(std::string_view text, const CsvColumns& columns, const CsvReading& reading = {}) {
  return parse_csv(text, columns, learn_csv(text, columns, reading, "f.csv"), "f.csv");
}

const CsvColumns kLabelled{.label = "y", .user = {}, .targets = {}, .ignored = {}};

TEST(Csv, ReadsFeaturesLabelsUsersAndTargets) {
  const CsvTable table = table_of("a,label,who,b,t\r\n1,0,ann,-2.5,7\r\n\r\n 3 ,1,\"bob, \"\"jr\"\"\",1e2,8",
                                  {.label = "label", .user = "who", .targets = {"t"}, .ignored = {}});
  EXPECT_EQ(table.rows, 2u);
  EXPECT_EQ(table.features, (Texts{"a", "b"}));
  EXPECT_EQ(table.values, (std::vector<float>{1, -2.5, 3, 100}));
  EXPECT_EQ(table.targets, (std::vector<float>{7, 8}));
  EXPECT_EQ(table.labels, (Texts{"0", "1"}));
  EXPECT_EQ(table.users, (Texts{"ann", "bob, \"jr\""}));
}

TEST(Csv, RefusalsNameFileLineAndColumn) {
  const auto refuse = [](const char* text, std::initializer_list<std::string_view> pieces) {
    expect_refusal([&] { table_of(text, kLabelled); }, pieces);
  };
  refuse("", {"f.csv", "empty"});
  refuse("x,y\n", {"f.csv", "no rows"});
  refuse("x,z\n1,2\n", {"f.csv:1", "unknown column 'y'", "x, z"});
  refuse("y\n1\n", {"f.csv:1", "no feature column"});
  refuse("x,x,y\n1,2,3\n", {"f.csv:1:2", "appears twice"});
  refuse("x,y\n1,0\nabc,1\n", {"f.csv:3:1", "'x'", "'abc'", "data.ignore = [\"x\"]"});
  refuse("x,y\n1,0\n,1\n", {"f.csv:3:1", "''", "data.missing", "data.ignore = [\"x\"]"});
  refuse("x,y\nnan,0\n", {"f.csv:2:1", "found 'nan'", "data.missing"});
  refuse("x,y\n1e99,0\n", {"f.csv:2:1", "finite"});
  refuse("x,y\n1\n", {"f.csv:2", "2 fields", "found 1"});
  refuse("x,y\n1,2,3\n", {"f.csv:2", "2 fields", "found 3"});
  refuse("x,y\n1,\n", {"f.csv:2:2", "found nothing"});
  refuse("x,y\n\"1,0\n", {"f.csv:2:1", "never closed"});
  refuse("x,y\n\"1\"2,0\n", {"f.csv:2:1", "after the closing quote"});
  // A line break inside quotes does not confuse the line numbers.
  refuse("x,y\n1,\"a\nb\"\n?,c\n", {"f.csv:4:1", "'?'"});
}

TEST(Csv, ReadsWhatPeopleHave) {
  const CsvTable table = table_of(
      "smoker,colour,born,dose,y\n"
      "yes,red,1970-01-03,1.5,a\n"
      "No,blue,1970-01-01T12:00,2,b\n"
      "TRUE,red,1969-12-31 00:00:00Z,3,a\n",
      kLabelled);
  EXPECT_EQ(table.features, (Texts{"smoker", "colour=blue", "colour=red", "born", "dose"}));
  EXPECT_EQ(table.values, (Values{1, 0, 1, 2, 1.5, /**/ 0, 1, 0, .5, 2, /**/ 1, 0, 1, -1, 3}));
  EXPECT_EQ(table.lines, (std::vector<std::size_t>{2, 3, 4}));
  const CsvTable codes =
      table_of("colour,y\nred,0\nblue,1\n", kLabelled, {.categories = CsvReading::Categories::codes});
  EXPECT_EQ(codes.features, (Texts{"colour"}));
  EXPECT_EQ(codes.values, (Values{1, 0}));
}

TEST(Csv, FindsTheSeparatorAndReadsDecimalCommas) {
  EXPECT_EQ(table_of("a;b, c;y\n1,5;2;0\n", kLabelled).values, (Values{1.5, 2}));
  EXPECT_EQ(table_of("a\tb\ty\n1.5\t2\t0\n", kLabelled).values, (Values{1.5, 2}));
  EXPECT_EQ(table_of("a|\"b,,,\"|y\n1.5|2|0\n", kLabelled).features, (Texts{"a", "b,,,"}));
  expect_refusal([] { table_of("a;y\n1;2\n", kLabelled, {.separator = ','}); }, {"f.csv:1", "unknown column 'y'"});
  expect_refusal([] { table_of("a;y\n1,5;0\n1,2,3;0\n", kLabelled); }, {"f.csv:3:1", "1,2,3"});
}

TEST(Csv, MissingValuesAreReplacedOrTheirRowsDropped) {
  const char* text = "x,c,y\n1,red,0\nNA,red,1\n4,,0\n,blue,\n";
  const CsvTable mean = table_of("x,c,y\n1,red,0\nNA,red,1\n4,?,0\n", kLabelled, {.missing = Missing::mean});
  EXPECT_EQ(mean.features, (Texts{"x", "c=red"}));
  EXPECT_EQ(mean.values, (Values{1, 1, 2.5, 1, 4, 1}));
  const CsvTable dropped = table_of(text, kLabelled, {.missing = Missing::drop});
  EXPECT_EQ(dropped.rows, 1u);
  EXPECT_EQ(dropped.features, (Texts{"x", "c=red"}));
  // A label cannot be guessed.
  expect_refusal([&] { table_of(text, kLabelled, {.missing = Missing::mean}); }, {"f.csv:5:3", "'y'", "nothing"});
  expect_refusal([] { table_of("x,y\n,0\n", kLabelled, {.missing = Missing::drop}); },
                 {"every row lacks a value", "data.missing"});
}

TEST(Csv, ATestFileIsReadByTheTrainingFilesCode) {
  const char* text = "c,d,y\nred,yes,0\nblue,no,1\n";
  const CsvCoding coding = learn_csv(text, kLabelled, {}, "train.csv");
  const auto test = [&](const char* rows, const CsvCoding& by) { return parse_csv(rows, kLabelled, by, "test.csv"); };
  EXPECT_EQ(test("c,d,y\nblue,no,0\ngreen,yes,0\n", coding).values, (Values{1, 0, 0, /**/ 0, 0, 1}));
  expect_refusal([&] { test("c,d,y\nblue,maybe,0\n", coding); }, {"test.csv:2:2", "'maybe'", "yes and no"});
  const CsvCoding codes = learn_csv(text, kLabelled, {.categories = CsvReading::Categories::codes}, "train.csv");
  expect_refusal([&] { test("c,d,y\ngreen,no,0\n", codes); }, {"test.csv:2:1", "'green'"});
  expect_refusal([&] { test("c,y\nblue,0\n", coding); }, {"test.csv:1", "1 feature column; expected 2"});
}

TEST(Csv, ADateIsADateAndANameIsAName) {
  // No such day, and a mixture: categories both. So many that they are names: refused, with the way out.
  EXPECT_EQ(table_of("d,y\n2026-02-30,0\n", kLabelled).features, (Texts{"d=2026-02-30"}));
  EXPECT_EQ(table_of("d,y\n2026-02-20,0\nlater,0\n", kLabelled).features, (Texts{"d=2026-02-20", "d=later"}));
  std::string many = "name,x,y\n";
  for (int i = 0; i < 101; ++i) many += "p" + std::to_string(i) + ",1,0\n";
  expect_refusal([&] { table_of(many, kLabelled); },
                 {"f.csv:2:1", "'name'", "'p0'", "more than 100", "data.ignore = [\"name\"]"});
}

TEST(Csv, Utf16IsReadByItsMark) {
  const TestFolder folder;
  const auto utf16 = [](std::u16string_view text, bool big) {
    std::string bytes;
    for (const char16_t c : text) {
      const char high = static_cast<char>(c >> 8), low = static_cast<char>(c & 0xFF);
      bytes += big ? std::string{high, low} : std::string{low, high};
    }
    return bytes;
  };
  for (const bool big : {false, true}) {
    folder.write("f.csv", utf16(u"\uFEFFgröße,y\n1,\U0001F600\n", big));
    const CsvTable table = table_of(read_csv_text(folder.path() / "f.csv"), kLabelled);
    EXPECT_EQ(table.features, (Texts{"gr\xc3\xb6\xc3\x9f"
                                     "e"}));
    EXPECT_EQ(table.labels, (Texts{"\xf0\x9f\x98\x80"}));
  }
}

CsvTable labelled(Texts labels) {
  CsvTable table{.labels = std::move(labels)};
  for (std::size_t i = 0; i < table.labels.size(); ++i) table.lines.push_back(i + 2);
  return table;
}

TEST(Csv, LabelsAreNumbersOrNames) {
  EXPECT_EQ(number_labels(labelled({"2", "0"}), "a", labelled({"1"}), "b").train, (std::vector<std::int32_t>{2, 0}));
  const CsvClasses classes = number_labels(labelled({"dog", "cat", "dog"}), "a", labelled({"cat"}), "b");
  EXPECT_EQ(classes.names, (Texts{"cat", "dog"}));
  EXPECT_EQ(classes.train, (std::vector<std::int32_t>{1, 0, 1}));
  EXPECT_EQ(classes.test, (std::vector<std::int32_t>{0}));
  expect_refusal([] { number_labels(labelled({"0", "-1"}), "a.csv", {}, "b"); }, {"a.csv:3", "'-1'"});
  expect_refusal([] { number_labels(labelled({"0", "1.5"}), "a.csv", {}, "b"); }, {"a.csv:3", "'1.5'"});
  expect_refusal([] { number_labels(labelled({"dog"}), "a", labelled({"dig"}), "b.csv"); },
                 {"b.csv:2", "did you mean 'dog'"});
}

TEST(Csv, NeverCrashes) {
  EXPECT_TRUE(rc::check("any text", [](const std::vector<std::uint8_t>& choices) {
    static const char* const pieces[] = {",", "\n", "\"", "1", "x", "\r\n", " ", ";"};
    std::string text = "x,y\n";
    for (const auto choice : choices) text += pieces[choice % 8];
    try {
      const CsvTable table = table_of(text, kLabelled);
      RC_ASSERT(table.values.size() == table.rows * table.features.size());
    } catch (const InputError&) {
    }
  }));
}

}  // namespace
}  // namespace parley
