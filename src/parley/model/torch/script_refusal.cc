#include "parley/model/torch/script_refusal.h"

#include <fmt/format.h>

#include <string_view>

namespace parley {

std::string newer_than(const std::string& version, const std::string& message) {
  const std::string remedy =
      "build Parley against a newer one (scripts/setup --torch current; docs/models.md), or export the network without "
      "it";
  const std::string unknown = "Unknown builtin op: ";
  if (const auto found = message.find(unknown); found != std::string::npos) {
    const std::string_view rest = std::string_view(message).substr(found + unknown.size());
    return fmt::format("it uses {}, which LibTorch {} does not know; {}", rest.substr(0, rest.find_first_of(". \n")),
                       version, remedy);
  }
  for (const char* sign : {"maximum supported version", "Unrecognized data format", "Unknown type name"}) {
    const auto found = message.find(sign);
    if (found == std::string::npos) continue;
    const std::string_view rest = std::string_view(message).substr(found);
    return fmt::format("it was written for a newer LibTorch than {} ({}); {}", version, rest.substr(0, rest.find('\n')),
                       remedy);
  }
  return "";
}

}  // namespace parley
