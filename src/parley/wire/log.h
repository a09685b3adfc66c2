// One line for each thing that happens, on stderr, for people and for programs.
//
//   2026-11-17T01:20:00.123Z joined node=clinic-a client=3
//   {"time":"…","event":"joined","node":"clinic-a","client":"3"}      with `json`
//
// Threads:  any.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace parley::wire {

using Fields = std::initializer_list<std::pair<std::string_view, std::string>>;

enum class LogFormat { text, json, none };

class Log {
 public:
  explicit Log(LogFormat format = LogFormat::text) : format_(format) {}
  void say(std::string_view event, Fields fields = {}) const;

 private:
  LogFormat format_;
};

// Now, in UTC, to the millisecond.
std::string timestamp();

}  // namespace parley::wire
