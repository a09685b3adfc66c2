// Finding files by the names that users write.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "parley/data/source.h"

namespace parley {

// A path of an option: absolute, or under one of the roots, or under the working folder; plain or
// with .gz. Throws InputError naming `key` and every folder searched.
std::filesystem::path locate(const DataRoots& roots, const std::string& path, const std::string& key);

// `file` or `file`.gz, whichever exists; otherwise an empty path.
std::filesystem::path plain_or_gz(const std::filesystem::path& file);

// The first root/folder that holds `file`; refuses as below when there is none.
std::filesystem::path folder_with(const DataRoots& roots, const std::string& name, const std::string& folder,
                                  const std::string& file, const std::string& remedy);

// "data set 'mnist' not found: no mnist/train-images-idx3-ubyte[.gz] under …; remedies".
[[noreturn]] void refuse_missing(const std::string& name, const DataRoots& roots,
                                 const std::vector<std::string>& wanted, const std::string& remedy);

}  // namespace parley
