// For tests: data sets by their names, from a folder that the test wrote or from where they are on this machine.
#pragma once

#include <string>

#include "parley/data/source.h"
#include "parley/data/test_folder.h"

namespace parley {

inline Options options_for(const std::string& name) {
  const DatasetRegistry registry = datasets();
  std::vector<Option> declared = common_data_options();
  for (const auto& option : registry.at(name).about.options) declared.push_back(option);
  Options options("data", declared);
  options.set("name", name);
  return options;
}

inline TrainTest load(const Options& options, const DataRoots& roots) {
  return load_data(datasets(), options, roots);
}

inline DataRoots only(const TestFolder& folder) {
  return {{folder.path()}};
}

// Loads the real data set, or skips the test with the loader's own message.
#define LOAD_OR_SKIP(data, options)                                              \
  TrainTest data;                                                                \
  try {                                                                          \
    data = load(options, DataRoots::standard(""));                               \
  } catch (const InputError& error) {                                            \
    if (std::string(error.what()).find("not found") == std::string::npos) throw; \
    GTEST_SKIP() << error.what();                                                \
  }

}  // namespace parley
