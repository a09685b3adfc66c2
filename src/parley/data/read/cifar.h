// CIFAR-10's binary form: records of one label byte and 3 × 32 × 32 pixel bytes, channel by
// channel.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "parley/data/dataset.h"

namespace parley {

struct CifarRecords {
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;
};
// Throws InputError and leaves `records` as they were.
void append_cifar10(std::string_view bytes, const std::string& name, CifarRecords& records);

// data_batch_1.bin … data_batch_5.bin of the folder, or test_batch.bin.
Dataset read_cifar10_train(const std::filesystem::path& folder);
Dataset read_cifar10_test(const std::filesystem::path& folder);

const std::vector<std::string>& cifar10_class_names();

}  // namespace parley
