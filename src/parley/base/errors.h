// What can go wrong, by whose doing.
//
// The world's failures (a file, a config, a peer) are the exceptions below; each message is one line that names the
// thing, says what was expected, and what to do. A bug of ours is an assertion, not one of these.
#pragma once

#include <fmt/format.h>

#include <cassert>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace parley {

// The common base. `exit_code()` is what the command line returns for it.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  virtual int exit_code() const { return 1; }
};

// The user's input is wrong: config, data file, model file, command line. Nothing has been touched.
class InputError : public Error {
 public:
  using Error::Error;
  int exit_code() const override { return 2; }
};

// A run failed after it had begun: a full disk, too many diverged clients.
class RunError : public Error {
 public:
  using Error::Error;
};

// An update that does not fit the round's schema or is not finite. The round goes on without that client.
class RefusedUpdate : public RunError {
 public:
  using RunError::RunError;
};

template <class Kind = InputError, class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Kind(fmt::format(format, std::forward<Args>(args)...));
}

// The candidate nearest to `name` by edit distance, or "" when none is near enough to be a likely typo.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

// "unknown method 'fala'; did you mean 'fola'? known: fedavg, fola"
std::string unknown_name(std::string_view kind, std::string_view name, const std::vector<std::string>& known);

}  // namespace parley
