#include "levels.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace parley::app {

#ifdef PARLEY_LEVELS
namespace {

void go_on_as(const std::string& level, char** arguments) {
  const auto own = std::filesystem::read_symlink("/proc/self/exe");
  ::execv((own.string() + "-" + level).c_str(), arguments);  // comes back only where there is no such program
}

}  // namespace

void run_for_this_cpu(char** arguments) {
  const char* const asked = std::getenv("PARLEY_LEVEL");
  const auto allowed = [&](const char* level) { return asked == nullptr || std::string(level) <= asked; };
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4") && allowed("x86-64-v4")) go_on_as("x86-64-v4", arguments);
  if (__builtin_cpu_supports("x86-64-v3") && allowed("x86-64-v3")) go_on_as("x86-64-v3", arguments);
}
#else
void run_for_this_cpu(char**) {}
#endif

}  // namespace parley::app
