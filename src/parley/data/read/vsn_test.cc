#include "parley/data/read/vsn.h"

#include "parley/data/test_folder.h"

namespace parley {
namespace {

// 50 features that are all `value`, and the class.
std::string row(const char* value, const char* one_hot) {
  std::string line;
  for (int i = 0; i < 50; ++i) line += fmt::format(" {}", value);
  return line + " " + one_hot + "\n";
}

class Vsn : public testing::Test {
 protected:
  Vsn() {
    folder_.write("aav3/n1/aav3evfeat1_1_1.txt", row("1.0e-001", "1 0 0 0") + row("2", "1 0 0 0"));
    folder_.write("aav3/n1/aav3evfeat1_1_2.txt", row("3", "1 0 0") + row("4", "1 0 0"));
    // Node 55 in the folder of node 54.
    folder_.write("dw9/n54/dw9evfeat55_1_1.txt", row("5", "0 1 0 0"));
    folder_.write("dw9/n54/dw9evfeat55_1_2.txt", row("6", "0 1 0"));
  }
  void refuse(std::initializer_list<std::string_view> pieces) const {
    expect_refusal([&] { read_vsn(folder_.path()); }, pieces);
  }

  TestFolder folder_;
};

TEST_F(Vsn, JoinsTheSensorsAndTakesTheNodeFromTheName) {
  const Dataset data = read_vsn(folder_.path());
  EXPECT_EQ(data.labels, (std::vector<std::int32_t>{0, 0, 1}));
  EXPECT_EQ(data.users, (std::vector<std::int32_t>{1, 1, 55}));
  const auto& values = std::get<Values<float>>(data.values);
  ASSERT_EQ(values.size(), 300u);
  EXPECT_EQ(values[49], 0.1f);
  EXPECT_EQ(values[50], 3.0f);
  EXPECT_EQ(values[299], 6.0f);
}

TEST_F(Vsn, Refuses) {
  folder_.write("dw9/n54/dw9evfeat55_1_2.txt", row("6", "0 1 0") + row("6", "0 1 0"));
  refuse({"dw9evfeat55_1_2.txt", "2 rows", "has 1"});
  folder_.write("dw9/n54/dw9evfeat55_1_2.txt", row("6", "1 0 0"));
  refuse({"dw9evfeat55_1_2.txt:1", "1 in column 52"});
  folder_.write("dw9/n54/dw9evfeat55_1_2.txt", row("6", "0 1"));
  refuse({"dw9evfeat55_1_2.txt:1", "53 numbers, found 52"});
  std::filesystem::remove(folder_.path() / "dw9/n54/dw9evfeat55_1_2.txt");
  refuse({"dw9evfeat55_1_2.txt"});
  folder_.write("dw9/n54/tank9evfeat55_1_1.txt", row("6", "0 1 0 0"));
  refuse({"tank9evfeat55_1_1.txt", "expected a name like"});
  const TestFolder empty;
  expect_refusal([&] { read_vsn(empty.path()); }, {empty.path().string(), "found none"});
}

}  // namespace
}  // namespace parley
