#include "program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace parley::tests {
namespace {

namespace fs = std::filesystem;

// What the child inherits: its folder, no input, and two files to write to.
class Inheritance {
 public:
  Inheritance(const fs::path& folder, const fs::path& out, const fs::path& err) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_addchdir_np(&actions_, folder.c_str());
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT, 0644);
    ::posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT, 0644);
  }
  ~Inheritance() { ::posix_spawn_file_actions_destroy(&actions_); }
  Inheritance(const Inheritance&) = delete;
  Inheritance& operator=(const Inheritance&) = delete;
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

}  // namespace

Process::Process(const std::vector<std::string>& command, const fs::path& folder) {
  const Inheritance inheritance(folder, streams_ / "out", streams_ / "err");
  std::vector<char*> arguments;
  for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int error = ::posix_spawnp(&pid_, arguments[0], inheritance.get(), nullptr, arguments.data(), environ);
  if (error != 0) throw std::runtime_error(command[0] + " cannot be started: " + std::strerror(error));
}

Process::~Process() {
  if (!ended_) {
    kill(SIGKILL);
    reap(0);
  }
}

void Process::kill(int signal) const {
  if (!ended_) ::kill(pid_, signal);
}

bool Process::running() {
  return !ended_ && !reap(WNOHANG);
}

bool Process::reap(int options) {
  int status = 0;
  rusage usage{};
  pid_t found = 0;
  do {
    found = ::wait4(pid_, &status, options, &usage);
  } while (found < 0 && errno == EINTR);
  if (found != pid_) return false;
  ended_ = true;
  outcome_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome_.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  outcome_.peak_kilobytes = usage.ru_maxrss;
  return true;
}

Outcome Process::wait() {
  if (!ended_) reap(0);
  outcome_.out = read_text(streams_ / "out");
  outcome_.err = read_text(streams_ / "err");
  return outcome_;
}

Outcome run_command(const std::vector<std::string>& command, const fs::path& folder) {
  return Process(command, folder).wait();
}

Outcome parley(const fs::path& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), parley_binary());
  return run_command(arguments, folder);
}

std::string parley_binary() {
  return PARLEY_BINARY;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

void write_text(const fs::path& file, const std::string& bytes) {
  fs::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out << bytes;
  if (!out.flush()) throw std::runtime_error(file.string() + " cannot be written");
}

std::string read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::size_t count_lines(const fs::path& file) {
  const std::string text = read_text(file);
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

Snapshot snapshot(const fs::path& folder) {
  Snapshot found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = fs::relative(entry.path(), folder).string();
    found[name] = entry.is_directory() ? "a folder" : read_text(entry.path());
  }
  return found;
}

std::vector<std::string> touched_since(const Snapshot& before, const fs::path& folder) {
  const Snapshot after = snapshot(folder);
  std::vector<std::string> names;
  for (const auto& [name, bytes] : before) {
    const auto found = after.find(name);
    if (found == after.end() || found->second != bytes) names.push_back(name);
  }
  for (const auto& [name, bytes] : after) {
    if (!before.contains(name)) names.push_back(name);
  }
  return names;
}

}  // namespace parley::tests
