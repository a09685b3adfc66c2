#include "fuzz.h"
#include "parley/base/config.h"

// The first line as an assignment of the command line, the rest as a file.
PARLEY_FUZZ_TARGET([](std::string_view text) {
  const std::size_t line = std::min(text.find('\n'), text.size());
  auto config = parley::Config::parse(text.substr(std::min(line + 1, text.size())), "input");
  config.set(text.substr(0, line));
  config.resolve("client", {{"lr", 0.1, "", parley::above(0.0)}, {"sizes", std::vector<std::int64_t>{}, ""}});
  config.refuse_unknown();
})
