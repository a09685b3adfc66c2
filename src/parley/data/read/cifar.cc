#include "parley/data/read/cifar.h"

#include "parley/base/errors.h"
#include "parley/data/read/bytes.h"

namespace parley {
namespace {

constexpr std::size_t kPixels = 3 * 32 * 32;
constexpr std::size_t kRecord = 1 + kPixels;

Dataset data_of(CifarRecords records) {
  Dataset data;
  data.shape = {3, 32, 32};
  data.classes = 10;
  data.class_names = cifar10_class_names();
  data.values = std::move(records.pixels);
  data.labels = std::move(records.labels);
  return data;
}

}  // namespace

const std::vector<std::string>& cifar10_class_names() {
  static const std::vector<std::string> names = {"airplane", "automobile", "bird",  "cat",  "deer",
                                                 "dog",      "frog",       "horse", "ship", "truck"};
  return names;
}

void append_cifar10(std::string_view bytes, const std::string& name, CifarRecords& records) {
  if (bytes.empty() || bytes.size() % kRecord != 0) {
    fail("{}: expected records of {} bytes, found {} bytes ({} left over); fetch the file again", name, kRecord,
         bytes.size(), bytes.size() % kRecord);
  }
  const std::size_t count = bytes.size() / kRecord;
  for (std::size_t i = 0; i < count; ++i) {
    const auto label = static_cast<unsigned char>(bytes[i * kRecord]);
    if (label >= 10) {
      fail("{}: record {}: label {} is out of range; expected 0 to 9", name, i, label);
    }
  }
  auto& [pixels, labels] = records;
  pixels.reserve(pixels.size() + count * kPixels);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view record = bytes.substr(i * kRecord, kRecord);
    labels.push_back(static_cast<unsigned char>(record[0]));
    pixels.insert(pixels.end(), record.begin() + 1, record.end());
  }
}

Dataset read_cifar10_train(const std::filesystem::path& folder) {
  CifarRecords records;
  for (int batch = 1; batch <= 5; ++batch) {
    const auto path = folder / fmt::format("data_batch_{}.bin", batch);
    append_cifar10(read_unpacked(path), path.string(), records);
  }
  return data_of(std::move(records));
}

Dataset read_cifar10_test(const std::filesystem::path& folder) {
  CifarRecords records;
  const auto path = folder / "test_batch.bin";
  append_cifar10(read_unpacked(path), path.string(), records);
  return data_of(std::move(records));
}

}  // namespace parley
