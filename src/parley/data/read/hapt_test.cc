#include "parley/data/read/hapt.h"

#include "parley/data/test_folder.h"

namespace parley {
namespace {

// Sample t of a sensor's axis a is base + 10·t + a.
std::string recording(int base, int samples) {
  std::string text;
  for (int t = 0; t < samples; ++t) {
    text += fmt::format("{} {} {}\n", base + 10 * t, base + 10 * t + 1, base + 10 * t + 2);
  }
  return text;
}

// Two people, one recording each of 300 samples.
class Hapt : public testing::Test {
 protected:
  Hapt() {
    write_labels("1 4 5 2 256\n1 4 7 257 300\n2 9 1 1 128\n");
    for (const char* who : {"exp01_user04", "exp02_user09"}) {
      folder_.write(fmt::format("RawData/acc_{}.txt", who), recording(0, 300));
      folder_.write(fmt::format("RawData/gyro_{}.txt", who), recording(5, 300));
    }
    folder_.write("Train/subject_id_train.txt", "4\n4\n");
    folder_.write("Train/y_train.txt", "5\n5\n");
    folder_.write("Test/subject_id_test.txt", "9\n");
    folder_.write("Test/y_test.txt", "1\n");
  }
  void write_labels(const std::string& text) const { folder_.write("RawData/labels.txt", text); }
  Dataset read() const { return read_hapt_windows(folder_.path()); }
  void refuse(std::initializer_list<std::string_view> pieces) const {
    expect_refusal(
        [&] {
          const Dataset windows = read();
          published_rows(windows, folder_.path(), "train");
        },
        pieces);
  }

  TestFolder folder_;
};

TEST_F(Hapt, CutsOverlappingWindowsInsideSegments) {
  const Dataset data = read();
  // Samples 2 to 256 hold windows from 2 and 66; 257 to 300 is too short; 1 to 128 is exactly one.
  EXPECT_EQ(data.labels, (std::vector<std::int32_t>{4, 4, 0}));
  EXPECT_EQ(data.users, (std::vector<std::int32_t>{4, 4, 9}));
  EXPECT_EQ(data.shape, (std::vector<std::int64_t>{6, 1, 128}));
  const auto& values = std::get<Values<float>>(data.values);
  ASSERT_EQ(values.size(), 3u * 6 * 128);
  const auto at = [&](std::size_t window, std::size_t axis, std::size_t t) {
    return values[(window * 6 + axis) * 128 + t];
  };
  EXPECT_EQ(at(0, 0, 0), 10);       // the second sample, counted from 1
  EXPECT_EQ(at(0, 2, 127), 1282);   // the accelerometer's z
  EXPECT_EQ(at(1, 0, 0), 650);      // 64 samples on
  EXPECT_EQ(at(1, 4, 0), 5 + 651);  // the gyroscope's y
  EXPECT_EQ(at(2, 0, 0), 0);
}

TEST_F(Hapt, FindsThePublishedParts) {
  const Dataset data = read();
  EXPECT_EQ(published_rows(data, folder_.path(), "train"), (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(published_rows(data, folder_.path(), "test"), (std::vector<std::uint32_t>{2}));
}

TEST_F(Hapt, RefusesSegmentsThatCannotBe) {
  write_labels("1 4 5 2 256\n1 4 5 200 301\n");
  refuse({"labels.txt:2", "up to 301", "experiment 1 has 300"});
  write_labels("1 4 13 2 256\n");
  refuse({"labels.txt:1", "activity 13"});
  write_labels("1 4 5 0 256\n");
  refuse({"labels.txt:1", "samples 0 to 256"});
  write_labels("1 4 5 20\n");
  refuse({"labels.txt:1", "5 numbers, found 4"});
  write_labels("3 4 5 2 256\n");
  refuse({"acc_exp03_user04.txt"});
}

TEST_F(Hapt, RefusesRecordingsThatDoNotFit) {
  folder_.write("RawData/gyro_exp01_user04.txt", recording(5, 299));
  refuse({"gyro_exp01_user04.txt", "299 samples", "has 300"});
  folder_.write("RawData/gyro_exp01_user04.txt", "1 2 x\n");
  refuse({"gyro_exp01_user04.txt:1", "'x'"});
}

TEST_F(Hapt, RefusesPublishedLabelsOfOtherWindows) {
  folder_.write("Train/y_train.txt", "5\n6\n");
  refuse({"y_train.txt:2", "activity 6", "activity 5", "do not belong together"});
  folder_.write("Train/y_train.txt", "5\n");
  refuse({"y_train.txt", "2 and 1 lines", "2 windows"});
}

}  // namespace
}  // namespace parley
