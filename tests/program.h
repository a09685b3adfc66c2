// Runs the real binary, as a user would, and sees what a user would see.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "parley/base/temp_folder.h"

namespace parley::tests {

struct Outcome {
  int exit_code = -1;  // -1: ended by a signal
  int signal = 0;
  std::string out, err;
  long peak_kilobytes = 0;
};

// A process that runs while the test goes on. Ended and waited for at the latest when the object is gone.
class Process {
 public:
  // stdout and stderr go to files of their own, outside `folder`, so that the folder shows only what the program does.
  Process(const std::vector<std::string>& command, const std::filesystem::path& folder);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void kill(int signal) const;
  bool running();
  int pid() const { return pid_; }
  Outcome wait();

 private:
  bool reap(int options);

  TempFolder streams_;
  int pid_ = -1;
  bool ended_ = false;
  Outcome outcome_;
};

// Runs any command in `folder`, to its end.
Outcome run_command(const std::vector<std::string>& command, const std::filesystem::path& folder);
// The same for `parley arguments…`.
Outcome parley(const std::filesystem::path& folder, std::vector<std::string> arguments);
// The path of the binary under test.
std::string parley_binary();

std::vector<std::string> words_of(const std::string& text);
void write_text(const std::filesystem::path& file, const std::string& bytes);
std::string read_text(const std::filesystem::path& file);
std::size_t count_lines(const std::filesystem::path& file);
// Every file and folder below, with its bytes: equal before and after means that nothing was touched.
using Snapshot = std::map<std::string, std::string>;
Snapshot snapshot(const std::filesystem::path& folder);
// The names of what was made, changed or removed since; names only, because a failing test should fit a screen.
std::vector<std::string> touched_since(const Snapshot& before, const std::filesystem::path& folder);

}  // namespace parley::tests
