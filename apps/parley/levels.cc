#include "levels.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "instruction_sets.h"

namespace parley::app {
namespace {

[[noreturn]] void refuse(const char* before, const char* name, const char* after, int exit_code) {
  std::fprintf(stderr, "parley: %s%s%s\n", before, name, after);
  ::_exit(exit_code);
}

}  // namespace

#ifdef PARLEY_LEVELS
namespace {

void go_on_as(const std::string& level, char** arguments) {
  const auto own = std::filesystem::read_symlink("/proc/self/exe");
  ::execv((own.string() + "-" + level).c_str(), arguments);  // comes back only where there is no such program
}

}  // namespace

void run_for_this_cpu(char** arguments) {
  const char* const asked = std::getenv("PARLEY_LEVEL");
  const std::string highest = asked == nullptr ? "x86-64-v4" : asked;
  if (highest != "x86-64" && highest != "x86-64-v3" && highest != "x86-64-v4") {
    refuse("PARLEY_LEVEL=", asked, ": no such level; known: x86-64, x86-64-v3, x86-64-v4", 2);
  }
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4") && highest >= "x86-64-v4") go_on_as("x86-64-v4", arguments);
  if (__builtin_cpu_supports("x86-64-v3") && highest >= "x86-64-v3") go_on_as("x86-64-v3", arguments);
}
#else
void run_for_this_cpu(char**) {}
#endif

#ifdef __x86_64__
namespace {

// Ends the program when the rooms are compiled for instructions that this CPU lacks. The first thing to run, before
// main(): constants of the rooms, and of templates that they share with the standard library, are set with them.
[[gnu::constructor(101)]] void require_this_cpu() {
  const bool* built_for = kBuiltFor;
  __builtin_cpu_init();
#define REQUIRE_IT(name, macro)                                \
  if (*built_for++ && !__builtin_cpu_supports(name))           \
    refuse("this program is built for processors with ", name, \
           ", which this one lacks; build it on this machine, or for any processor with -DPARLEY_NATIVE=OFF", 1);
  PARLEY_INSTRUCTION_SETS(REQUIRE_IT)
#undef REQUIRE_IT
}

}  // namespace
#endif

}  // namespace parley::app
