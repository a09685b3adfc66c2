// Fetching data sets: `parley data get NAME`.
//
// Files are fetched into a temporary folder beside the destination, verified, and only then renamed
// into place. When anything fails, everything that was fetched is removed and what stood at the
// destination before is still there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "parley/base/files.h"

namespace parley {

// One file to fetch.
struct RemoteFile {
  std::string url_name;  // behind the base address: "train-images-idx3-ubyte.gz"
  std::string name;      // as stored: "train-images-idx3-ubyte"
  std::string digest;    // "sha256" or "md5"
  std::string expected;  // hexadecimal
  // gzip: stored unpacked, and the checksum is of the unpacked content, which does not depend on
  // how it was packed. tar: a .tar.gz, verified as it is and unpacked; `name` is the folder it must
  // make.
  enum class Packing { gzip, tar } packing = Packing::gzip;
  std::vector<std::string> members = {};  // tar: the files that the folder must hold
};

struct RemoteDataset {
  std::string name;
  std::string folder;              // under the destination; "" = the destination itself
  std::vector<std::string> bases;  // addresses that hold the files, tried in order
  std::vector<RemoteFile> files;
};

// What can be fetched: mnist, fashion-mnist, cifar10.
const std::vector<RemoteDataset>& remote_datasets();

// Called now and then with the bytes so far; `total` is 0 while it is unknown.
using FetchProgress = std::function<void(const std::string& file, std::uint64_t done, std::uint64_t total)>;

// Fetches a data set into <destination>/…, where load_data finds it when the destination is a data
// root. Files that are there and verify are kept. `base_url` (https://…, file:///…) replaces the
// table's addresses unless it is empty. Returns the folder. Throws InputError for an unknown name,
// RunError when a file cannot be had or does not verify.
std::filesystem::path fetch_dataset(const std::string& name, const std::filesystem::path& destination,
                                    const std::string& base_url, const FetchProgress& progress = {});
std::filesystem::path fetch_dataset(const RemoteDataset& dataset, const std::filesystem::path& destination,
                                    const std::string& base_url, const FetchProgress& progress = {},
                                    Files& files = real_files());

}  // namespace parley
