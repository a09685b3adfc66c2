#include "parley/data/read/leaf.h"

#include "parley/data/test_folder.h"

namespace parley {
namespace {

constexpr const char* kOne = R"({"users": ["u1", "u2"], "num_samples": [2, 1],
  "user_data": {"u1": {"x": [[1, 2], [3, 4]], "y": [0, 1.0]}, "u2": {"x": [[[5], [6]]], "y": [1]}}})";

TEST(Leaf, ReadsSeveralFiles) {
  const TestFolder folder;
  folder.write("a.json", kOne);
  folder.write("b.json", R"({"users": ["u3"], "num_samples": [1], "user_data": {"u3": {"x": [[7, 8]], "y": [2]}}})");
  folder.write("README", "not json");
  const LeafTable table = read_leaf(folder.path());
  EXPECT_EQ(table.features, 2u);
  EXPECT_EQ(table.values, (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(table.labels, (std::vector<std::int32_t>{0, 1, 1, 2}));
  EXPECT_EQ(table.users, (std::vector<std::string>{"u1", "u1", "u2", "u3"}));
}

TEST(Leaf, Refuses) {
  const auto refuse = [](const std::string& text, std::initializer_list<std::string_view> pieces) {
    LeafTable table;
    expect_refusal([&] { append_leaf(text, "f.json", table); }, pieces);
  };
  const auto one = [](const std::string& x, const std::string& y, const std::string& count) {
    return R"({"users": ["u"], "num_samples": [)" + count + R"(], "user_data": {"u": {"x": )" + x + R"(, "y": )" + y +
           "}}}";
  };
  refuse("{", {"f.json", "not valid JSON"});
  refuse("[]", {"f.json", "no 'users'"});
  refuse(R"({"users": ["u"], "num_samples": []})", {"f.json", "no 'user_data'"});
  refuse(R"({"users": ["u"], "num_samples": [], "user_data": {}})", {"f.json", "1 users", "0 num_samples"});
  refuse(R"({"users": ["u"], "num_samples": [1], "user_data": {}})", {"f.json", "user 'u'", "no 'u'"});
  refuse(R"({"users": [3], "num_samples": [1], "user_data": {}})", {"f.json", "expected texts"});
  refuse(one("[[1]]", "[0, 1]", "1"), {"user 'u'", "1 row of x", "2 of y"});
  refuse(one("[[1], [1, 2]]", "[0, 1]", "2"), {"user 'u'", "row 1", "expected 1 feature, found 2"});
  refuse(one("[[1]]", "[0]", "2"), {"user 'u'", "num_samples says 2", "found 1"});
  refuse(one("[[1]]", "[-1]", "1"), {"user 'u'", "found -1"});
  refuse(one("[[1]]", "[0.5]", "1"), {"user 'u'", "0.5"});
  refuse(one("[\"the text\"]", "[0]", "1"), {"user 'u'", "expected numbers", "string"});
  refuse(one("[[1e60]]", "[0]", "1"), {"user 'u'", "finite"});
  refuse(one("[[[[[[[[[[[[1]]]]]]]]]]]]", "[0]", "1"), {"user 'u'", "expected numbers"});
  const TestFolder folder;
  expect_refusal([&] { read_leaf(folder.path()); }, {folder.path().string(), "found none"});
}

}  // namespace
}  // namespace parley
