#include "parley/data/fetch.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "parley/base/errors.h"
#include "parley/data/digest.h"
#include "parley/data/download.h"
#include "parley/data/read/bytes.h"

extern char** environ;

namespace parley {
namespace {

namespace fs = std::filesystem;

// A folder of our own under the destination, gone when we leave; so are the parents we had to make,
// if still empty.
class Staging {
 public:
  Staging(const fs::path& destination, const std::string& name) {
    for (fs::path folder = fs::absolute(destination); !fs::exists(folder); folder = folder.parent_path()) {
      made_.push_back(folder);
    }
    make_folder(destination);
    path_ = destination / fmt::format(".fetch-{}-{}", name, ::getpid());
    make_folder(path_);
  }
  ~Staging() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    for (const auto& folder : made_) fs::remove(folder, ignored);  // fails, as it should, when not empty
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  std::vector<fs::path> made_;
};

std::vector<std::string> stored_names(const RemoteDataset& dataset) {
  std::vector<std::string> names;
  for (const auto& file : dataset.files) names.push_back(file.name);
  return names;
}

[[noreturn]] void refuse_fetch(const RemoteDataset& dataset, const fs::path& folder,
                               const std::vector<std::string>& reasons) {
  fail<RunError>(
      "{} could not be fetched ({}); without a network, put {} into {} yourself, or fetch from a "
      "folder that has {} "
      "by giving its address as file:///…",
      dataset.name, fmt::join(reasons, "; "), fmt::join(stored_names(dataset), ", "), folder.string(),
      dataset.files.front().url_name);
}

std::string joined(std::string base, const std::string& name) {
  if (!base.ends_with('/')) base += '/';
  return base + name;
}

void verify(const RemoteFile& file, std::string_view content, const std::string& url) {
  const std::string found = hex_digest(file.digest, content);
  if (found != file.expected) {
    fail<RunError>("{}: the {} checksum is {}, expected {}; the file is damaged or another one", url, file.digest,
                   found, file.expected);
  }
}

// The verified content of a file: unpacked for gzip, the archive itself for tar.
std::string fetch_file(const RemoteFile& file, const std::string& base, const FetchProgress& progress) {
  const std::string url = joined(base, file.url_name);
  std::string bytes = download(url, [&](std::uint64_t done, std::uint64_t total) {
    if (progress) progress(file.name, done, total);
  });
  if (file.packing == RemoteFile::Packing::gzip) {
    try {
      bytes = unpack_gzip(bytes, url);
    } catch (const InputError& error) {
      throw RunError(error.what());  // not the user's doing
    }
  }
  verify(file, bytes, url);
  return bytes;
}

void untar(const fs::path& archive, const fs::path& folder) {
  const std::string from = archive.string(), to = folder.string();
  const char* const arguments[] = {"tar", "-xzf", from.c_str(), "-C", to.c_str(), "--no-same-owner", nullptr};
  pid_t child = 0;
  int status = 0;
  const int error = ::posix_spawnp(&child, "tar", nullptr, nullptr, const_cast<char**>(arguments), environ);
  if (error != 0 || ::waitpid(child, &status, 0) != child || status != 0) {
    fail<RunError>("{}: `tar -xzf` failed; check that tar and gzip are installed and the disk has room", from);
  }
}

bool is_complete(const RemoteFile& file, const fs::path& folder) {
  std::error_code ignored;
  return std::all_of(file.members.begin(), file.members.end(),
                     [&](const std::string& member) { return fs::is_regular_file(folder / member, ignored); });
}

// Puts one verified file (or unpacked folder) into the staging folder.
void stage(const RemoteFile& file, const std::string& content, const fs::path& staging, Files& files) {
  if (file.packing == RemoteFile::Packing::gzip) return files.replace(staging / file.name, content);
  const fs::path archive = staging / file.url_name;
  files.replace(archive, content);
  untar(archive, staging);
  if (!is_complete(file, staging / file.name)) {
    fail<RunError>("{}: expected a folder {} with {}; it is not the data set's own archive", file.url_name, file.name,
                   fmt::join(file.members, ", "));
  }
}

bool is_present(const RemoteFile& file, const fs::path& path) {
  std::error_code ignored;
  if (file.packing == RemoteFile::Packing::tar) return is_complete(file, path);
  return fs::is_regular_file(path, ignored) && hex_digest(file.digest, read_file(path)) == file.expected;
}

// Tries one base address after the other; the last resort is a message that says what to do by
// hand.
void fetch_into(const RemoteFile& file, const RemoteDataset& dataset, const std::vector<std::string>& bases,
                const fs::path& staging, const fs::path& folder, const FetchProgress& progress, Files& files) {
  std::vector<std::string> reasons;
  std::string content;
  bool done = false;
  for (const auto& base : bases) {
    try {
      content = fetch_file(file, base, progress);
      done = true;
      break;
    } catch (const RunError& error) {
      reasons.emplace_back(error.what());
    }
  }
  if (!done) refuse_fetch(dataset, folder, reasons);
  stage(file, content, staging, files);
}

RemoteDataset idx_dataset(const std::string& name, const std::vector<std::string>& bases,
                          const std::vector<std::string>& digests) {
  RemoteDataset dataset{name, name, bases, {}};
  const char* const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                               "t10k-labels-idx1-ubyte"};
  for (std::size_t i = 0; i < 4; ++i) {
    dataset.files.push_back({std::string(names[i]) + ".gz", names[i], "sha256", digests[i]});
  }
  return dataset;
}

}  // namespace

const std::vector<RemoteDataset>& remote_datasets() {
  static const std::vector<RemoteDataset> datasets = {
      idx_dataset(
          "mnist",
          {"https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"},
          {"ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
           "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
           "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
           "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"}),
      // The site has no https; the checksums make up for it.
      idx_dataset("fashion-mnist",
                  {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
                   "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/"},
                  {"c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                   "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                   "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                   "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"}),
      {"cifar10",
       "",
       {"https://www.cs.toronto.edu/~kriz/"},
       {{"cifar-10-binary.tar.gz",
         "cifar-10-batches-bin",
         "md5",
         "c32a1d4ab5d03f1284b67883e8d87530",
         RemoteFile::Packing::tar,
         {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin",
          "test_batch.bin"}}}},
  };
  return datasets;
}

fs::path fetch_dataset(const std::string& name, const fs::path& destination, const std::string& base_url,
                       const FetchProgress& progress) {
  std::vector<std::string> names;
  for (const auto& dataset : remote_datasets()) {
    if (dataset.name == name) return fetch_dataset(dataset, destination, base_url, progress);
    names.push_back(dataset.name);
  }
  throw InputError(unknown_name("data set to fetch", name, names));
}

fs::path fetch_dataset(const RemoteDataset& dataset, const fs::path& destination, const std::string& base_url,
                       const FetchProgress& progress, Files& files) {
  const std::vector<std::string> bases = base_url.empty() ? dataset.bases : std::vector{base_url};
  const fs::path folder = dataset.folder.empty() ? destination : destination / dataset.folder;
  std::vector<const RemoteFile*> missing;
  for (const auto& file : dataset.files) {
    if (!is_present(file, folder / file.name)) missing.push_back(&file);
  }
  if (missing.empty()) return folder;
  const Staging staging(destination, dataset.name);
  for (const auto* file : missing) {
    fetch_into(*file, dataset, bases, staging.path(), folder, progress, files);
  }
  make_folder(folder);
  for (const auto* file : missing) {
    std::error_code error;
    // An incomplete folder of an earlier, interrupted unpacking would stand in the way.
    if (file->packing == RemoteFile::Packing::tar) fs::remove_all(folder / file->name, error);
    fs::rename(staging.path() / file->name, folder / file->name, error);
    if (error) fail<RunError>("{}: cannot be put in place: {}", (folder / file->name).string(), error.message());
  }
  return folder;
}

}  // namespace parley
