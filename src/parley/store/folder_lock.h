// Who may write to a run folder.
#pragma once

#include <filesystem>

namespace parley {

// A run folder has one owner at a time: two processes that write to it would destroy each other's files. The lock is on
// the folder itself, makes no file, and is gone with the process, however that ends.
class FolderLock {
 public:
  // Throws InputError when another process has it.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int handle_;
};
// Whether a process has that lock, or may have it: not every file system can tell.
bool in_use(const std::filesystem::path& folder);

}  // namespace parley
