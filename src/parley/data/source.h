// Data sets by name, and where to look for their files.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "parley/base/registry.h"
#include "parley/data/dataset.h"

namespace parley {

// The folders that are searched, in order: data.root, $PARLEY_DATA, ~/.cache/parley, the system's dataset folders.
struct DataRoots {
  std::vector<std::filesystem::path> folders;
  static DataRoots standard(const std::string& data_root);
  // The first folder/relative that exists, or an empty path.
  std::filesystem::path find(const std::filesystem::path& relative) const;
};

// Reads a data set. `options` are the resolved keys of [data]; `roots` is where to look. Throws InputError.
using LoadData = std::function<TrainTest(const Options& options, const DataRoots& roots)>;
using DatasetRegistry = Registry<LoadData>;

// Every data set and file format, in one list.
DatasetRegistry datasets();

}  // namespace parley
