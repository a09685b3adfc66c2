#include "parley/base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>

#include "parley/base/errors.h"

namespace parley {
namespace {

namespace fs = std::filesystem;

class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  int close() {
    const int result = fd_ >= 0 ? ::close(fd_) : 0;
    fd_ = -1;
    return result == 0 ? 0 : errno;
  }

 private:
  int fd_;
};

[[noreturn]] void refuse_write(const fs::path& path, int error) {
  const char* remedy = error == ENOSPC || error == EDQUOT ? "free some space and run again with --resume"
                       : error == EFBIG ? "raise the limit on file sizes (ulimit -f) and run again with --resume"
                                        : "check the folder and its permissions";
  fail<RunError>("{}: cannot be written: {}; {}", path.string(), std::strerror(error), remedy);
}

// Makes a rename durable. Not every file system can; that is no failure.
void sync_folder(const fs::path& folder) {
  const Descriptor descriptor(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY);
  if (descriptor.ok()) ::fsync(descriptor.get());
}

}  // namespace

int Files::write(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(descriptor, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(done));
  }
  return 0;
}

void Files::replace(const fs::path& path, std::span<const std::string_view> pieces) {
  const fs::path temporary = path.string() + ".tmp";
  Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
  if (!file.ok()) refuse_write(path, errno);
  int error = 0;
  for (const auto piece : pieces) {
    if (error == 0) error = write(file.get(), piece);
  }
  if (error == 0 && ::fsync(file.get()) != 0) error = errno;
  if (const int closed = file.close(); error == 0) error = closed;
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    refuse_write(path, error);
  }
  sync_folder(path.parent_path());
}

void Files::append(const fs::path& path, std::string_view bytes) {
  Descriptor file(path, O_WRONLY | O_CREAT | O_APPEND);
  if (!file.ok()) refuse_write(path, errno);
  struct stat before {};
  if (::fstat(file.get(), &before) != 0) refuse_write(path, errno);
  if (const int error = write(file.get(), bytes); error != 0) {
    // A half-written line would spoil the file; an old length that cannot be restored is reported with the same error.
    (void)!::ftruncate(file.get(), before.st_size);
    refuse_write(path, error);
  }
}

Files& real_files() {
  static Files files;
  return files;
}

int LimitedFiles::write(int descriptor, std::string_view bytes) {
  const std::size_t fits = std::min(left_, bytes.size());
  left_ -= fits;
  if (const int error = Files::write(descriptor, bytes.substr(0, fits)); error != 0) return error;
  return fits < bytes.size() ? ENOSPC : 0;
}

std::string read_file(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) fail("{}: is a folder; expected a file", path.string());
  std::ifstream in(path, std::ios::binary);
  if (!in) fail("{}: cannot be read: {}", path.string(), std::strerror(errno));
  std::string text(static_cast<std::size_t>(fs::file_size(path)), '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.gcount() != static_cast<std::streamsize>(text.size())) fail("{}: could not be read to its end", path.string());
  return text;
}

MappedFile::MappedFile(const fs::path& path) {
  const Descriptor file(path, O_RDONLY);
  struct stat info {};
  if (!file.ok() || ::fstat(file.get(), &info) != 0)
    fail("{}: cannot be read: {}", path.string(), std::strerror(errno));
  if (S_ISDIR(info.st_mode)) fail("{}: is a folder; expected a file", path.string());
  if (info.st_size == 0) return;  // which cannot be mapped
  const auto size = static_cast<std::size_t>(info.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) fail("{}: cannot be read: {}", path.string(), std::strerror(errno));
  data_ = static_cast<const char*>(data);
  size_ = size;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
}

void require_writable(const fs::path& folder) {
  fs::path existing = fs::absolute(folder).lexically_normal();
  while (!fs::exists(existing) && existing.has_relative_path()) existing = existing.parent_path();
  if (!fs::is_directory(existing) || ::access(existing.c_str(), W_OK | X_OK) != 0) {
    fail("{}: the folder cannot be made or written to: {} is {}; choose another", folder.string(), existing.string(),
         fs::is_directory(existing) ? "read-only" : "no folder");
  }
}

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail("{}: the folder cannot be made: {}; choose another", path.string(), error.message());
  if (::access(path.c_str(), W_OK | X_OK) != 0) {
    fail("{}: the folder cannot be written to: {}; choose another", path.string(), std::strerror(errno));
  }
}

}  // namespace parley
