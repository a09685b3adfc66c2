#include "parley/store/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "parley/base/errors.h"

namespace parley {

FolderLock::FolderLock(const std::filesystem::path& folder)
    : handle_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (handle_ < 0) fail("{}: cannot be opened: {}", folder.string(), std::strerror(errno));
  // A file system without locks (some network ones) gives other errors; there nothing can be told, and the run goes on.
  if (::flock(handle_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(handle_);
  fail("{}: another process is writing a run there; wait until it has ended, or choose another --out", folder.string());
}

FolderLock::~FolderLock() {
  ::close(handle_);
}

bool in_use(const std::filesystem::path& folder) {
  const int handle = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) return false;
  const bool free = ::flock(handle, LOCK_SH | LOCK_NB) == 0;
  ::close(handle);
  return !free;
}

}  // namespace parley
