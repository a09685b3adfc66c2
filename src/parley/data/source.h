// Data sets by name, and where to look for their files.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "parley/base/registry.h"
#include "parley/data/dataset.h"

namespace parley {

// The folders that are searched, in order: data.root, $PARLEY_DATA, ~/.cache/parley, the system's
// dataset folders.
struct DataRoots {
  std::vector<std::filesystem::path> folders;
  static DataRoots standard(const std::string& data_root);
  // The first folder/relative that exists, or an empty path.
  std::filesystem::path find(const std::filesystem::path& relative) const;
};

// Reads a data set. `options` are the resolved keys of [data]; `roots` is where to look. Throws
// InputError.
using LoadData = std::function<TrainTest(const Options& options, const DataRoots& roots)>;
using DatasetRegistry = Registry<LoadData>;

// Every data set and file format, in one list.
DatasetRegistry datasets();

// The keys of [data] that every data set has: name, root, normalize, users, test_users, limit,
// test_limit.
std::vector<Option> common_data_options();

// The one way in: finds the entry by data.name, loads it, gives it the owners of data.users, cuts
// it to data.limit, sets the transform of data.normalize and checks the whole. `options` holds the
// common keys and the entry's own. Throws InputError; what it returns is sound: labels in range,
// finite values, train and test alike.
TrainTest load_data(const DatasetRegistry& registry, const Options& options, const DataRoots& roots);

}  // namespace parley
