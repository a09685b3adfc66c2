#include <set>

#include "parley/data/test_source.h"

namespace parley {
namespace {

std::set<std::int32_t> users_of(const Dataset& data) {
  return {data.users.begin(), data.users.end()};
}

TEST(Sensors, MissingSayWhereTheyWereLookedForAndWhatToDo) {
  const TestFolder folder;
  const std::string root = folder.path().string();
  expect_refusal([&] { load(options_for("har"), only(folder)); },
                 {"'har' was not found", root, "har_hapt/RawData/labels.txt", "HAPT"});
  expect_refusal([&] { load(options_for("vsn"), only(folder)); }, {"'vsn' was not found", root});
  expect_refusal([&] { load(options_for("eeg"), only(folder)); }, {"'eeg' was not found", root, "eeg/train.csv"});
}

TEST(Sensors, RefuseWhatTheFilesCannotGive) {
  Options har = options_for("har");
  har.set("activities", std::int64_t{7});
  expect_refusal([&] { load(har, {}); }, {"data.activities: 7", "6", "12"});
  Options eeg = options_for("eeg");
  eeg.set("decimate", std::int64_t{3});
  expect_refusal([&] { load(eeg, {}); }, {"data.decimate: 3", "256"});
}

TEST(RealSensors, HarIsThePublishedWindowsInTheirOrder) {
  Options options = options_for("har");
  options.set("activities", std::int64_t{12});
  options.set("features", std::string("raw"));
  LOAD_OR_SKIP(data, options);  // compares every window with y_*.txt and subject_id_*.txt
  EXPECT_EQ(data.train->size(), 7767u);
  EXPECT_EQ(data.test->size(), 3162u);
  EXPECT_EQ(users_of(*data.train).size(), 21u);
  EXPECT_EQ(users_of(*data.test).size(), 9u);
  EXPECT_EQ(data.train->transform.scale.size(), 6u);  // standardised axis by axis
}

TEST(RealSensors, HarHasEverySubjectInBothPartsWhenRowsAreSplit) {
  Options options = options_for("har");
  options.set("split", std::string("rows"));
  LOAD_OR_SKIP(data, options);
  EXPECT_EQ(data.train->shape, (std::vector<std::int64_t>{380}));
  EXPECT_EQ(data.train->classes, 6u);
  EXPECT_EQ(users_of(*data.train).size(), 30u);
  EXPECT_EQ(users_of(*data.test), users_of(*data.train));
  EXPECT_NEAR(static_cast<double>(data.test->size()) / static_cast<double>(data.train->size() + data.test->size()),
              0.25, 0.005);
}

TEST(RealSensors, Vsn) {
  LOAD_OR_SKIP(data, options_for("vsn"));
  EXPECT_EQ(data.train->size() + data.test->size(), 49264u);
  EXPECT_EQ(data.train->features(), 100u);
  EXPECT_EQ(users_of(*data.train).size(), 23u);
  EXPECT_EQ(users_of(*data.test), users_of(*data.train));
}

TEST(RealSensors, Eeg) {
  Options options = options_for("eeg");
  options.set("channels", std::int64_t{4});
  LOAD_OR_SKIP(data, options);
  EXPECT_EQ(data.train->size(), 468u);
  EXPECT_EQ(data.test->size(), 480u);
  EXPECT_EQ(data.train->shape, (std::vector<std::int64_t>{1, 4, 256}));
  EXPECT_EQ(users_of(*data.train).size(), 16u);
  EXPECT_EQ(users_of(*data.test), users_of(*data.train));
}

}  // namespace
}  // namespace parley
