// Files that are either whole or absent.
//
// `Files` is the one way the product writes to disk, so that a full disk can be simulated in a test.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace parley {

class Files {
 public:
  virtual ~Files() = default;

  // Writes to a temporary name beside `path`, fsyncs, renames. On failure throws RunError and leaves `path` as it was.
  void replace(const std::filesystem::path& path, std::string_view bytes) { replace(path, {&bytes, 1}); }
  // The same for several pieces, written one after the other without joining them in memory.
  void replace(const std::filesystem::path& path, std::span<const std::string_view> pieces);
  // Appends whole lines and flushes them to the OS. On failure throws RunError; the file is cut back to its old length.
  void append(const std::filesystem::path& path, std::string_view bytes);

 protected:
  // Writes all of `bytes` or returns an errno. The seam for fault injection.
  virtual int write(int descriptor, std::string_view bytes);
};

Files& real_files();

// A disk with room for `capacity` bytes; for tests.
class LimitedFiles : public Files {
 public:
  explicit LimitedFiles(std::size_t capacity) : left_(capacity) {}

 protected:
  int write(int descriptor, std::string_view bytes) override;

 private:
  std::size_t left_;
};

// The whole file. Throws InputError, naming the file and the reason.
std::string read_file(const std::filesystem::path& path);
// A file's bytes where the operating system keeps them: nothing is copied, and what is not touched is not read. The
// file may be replaced (Files::replace renames a new one into its place) but must not be cut short meanwhile.
class MappedFile {
 public:
  // Throws InputError, naming the file and the reason.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::string_view bytes() const { return {data_, size_}; }

 private:
  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

// Creates the folder and its parents and checks that it can be written to. Throws InputError.
void make_folder(const std::filesystem::path& path);
// Whether make_folder will succeed, as far as can be seen without making anything. Throws InputError.
void require_writable(const std::filesystem::path& folder);

}  // namespace parley
