#include "parley/data/read/cifar.h"

#include "parley/data/test_folder.h"

namespace parley {
namespace {

std::string record(char label, char fill) {
  return std::string(1, label) + std::string(3072, fill);
}

TEST(Cifar, ReadsTheBatches) {
  const TestFolder folder;
  for (int i = 1; i <= 5; ++i) {
    folder.write("data_batch_" + std::to_string(i) + ".bin", record(static_cast<char>(i), 'a') + record(0, 'b'));
  }
  folder.write("test_batch.bin", record(9, 'z'));
  const Dataset train = read_cifar10_train(folder.path()), test = read_cifar10_test(folder.path());
  EXPECT_EQ(train.size(), 10u);
  EXPECT_EQ(train.labels[2], 2);
  EXPECT_EQ(train.shape, (std::vector<std::int64_t>{3, 32, 32}));
  EXPECT_EQ(std::get<0>(train.values)[3072], 'b');
  EXPECT_EQ(test.labels, (std::vector<std::int32_t>{9}));
  EXPECT_EQ(test.class_names[9], "truck");
}

TEST(Cifar, Refuses) {
  CifarRecords records;
  expect_refusal([&] { append_cifar10(record(1, 'a') + "x", "b.bin", records); }, {"b.bin", "3073", "1 left over"});
  expect_refusal([&] { append_cifar10("", "b.bin", records); }, {"b.bin", "0 bytes"});
  expect_refusal([&] { append_cifar10(record(1, 'a') + record(10, 'a'), "b.bin", records); },
                 {"b.bin", "record 1", "label 10", "0 to 9"});
  EXPECT_TRUE(records.labels.empty());  // a refusal leaves it as it was
  const TestFolder folder;
  expect_refusal([&] { read_cifar10_train(folder.path()); }, {"data_batch_1.bin", "cannot be read"});
}

}  // namespace
}  // namespace parley
