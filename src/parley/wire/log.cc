#include "parley/wire/log.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

namespace parley::wire {
namespace {

// As it is, or in quotes where a space or a line break would end it.
std::string word(const std::string& value) {
  const bool plain = !value.empty() && value.find_first_of(" \t\r\n\"=") == std::string::npos;
  return plain ? value : nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string timestamp() {
  const auto now = std::chrono::system_clock::now();
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  const std::time_t seconds = milliseconds / 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:03}Z", text, milliseconds % 1000);
}

void Log::say(std::string_view event, Fields fields) const {
  if (format_ == LogFormat::none) return;
  std::string line;
  if (format_ == LogFormat::json) {
    nlohmann::ordered_json all = {{"time", timestamp()}, {"event", event}};
    for (const auto& [key, value] : fields) all[std::string(key)] = value;
    line = all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  } else {
    line = fmt::format("{} {}", timestamp(), event);
    for (const auto& [key, value] : fields) line += fmt::format(" {}={}", key, word(value));
  }
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);  // one call: lines of several threads do not mix
}

}  // namespace parley::wire
