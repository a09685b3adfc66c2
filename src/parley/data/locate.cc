#include "parley/data/locate.h"

#include <fmt/ranges.h>

#include "parley/base/errors.h"

namespace parley {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> texts(const std::vector<fs::path>& folders) {
  std::vector<std::string> result;
  for (const auto& folder : folders) result.push_back(folder.string());
  return result;
}

}  // namespace

fs::path plain_or_gz(const fs::path& file) {
  std::error_code ignored;
  if (fs::exists(file, ignored)) return file;
  const fs::path packed = file.string() + ".gz";
  return fs::exists(packed, ignored) ? packed : fs::path{};
}

fs::path locate(const DataRoots& roots, const std::string& path, const std::string& key) {
  if (path.empty()) fail("{}: empty; expected the path of a file or folder", key);
  std::vector<fs::path> folders = roots.folders;
  std::error_code ignored;
  folders.push_back(fs::current_path(ignored));
  if (fs::path(path).is_absolute()) folders = {"/"};
  for (const auto& folder : folders) {
    // An absolute path replaces the folder.
    if (const fs::path found = plain_or_gz(folder / path); !found.empty()) return found;
  }
  if (fs::path(path).is_absolute()) fail("{}: {} does not exist; check the path", key, path);
  fail("{}: '{}' does not exist under any of {}; give an absolute path or set data.root", key, path,
       fmt::join(texts(folders), ", "));
}

fs::path folder_with(const DataRoots& roots, const std::string& name, const std::string& folder,
                     const std::string& file, const std::string& remedy) {
  std::error_code ignored;
  for (const auto& root : roots.folders) {
    if (fs::exists(root / folder / file, ignored)) return root / folder;
  }
  refuse_missing(name, roots, {folder + "/" + file}, remedy);
}

void refuse_missing(const std::string& name, const DataRoots& roots, const std::vector<std::string>& wanted,
                    const std::string& remedy) {
  fail(
      "data set '{}' was not found; looked for {} under {}; {}, or set data.root or $PARLEY_DATA "
      "to the folder that "
      "holds it",
      name, fmt::join(wanted, " or "), fmt::join(texts(roots.folders), ", "), remedy);
}

}  // namespace parley
