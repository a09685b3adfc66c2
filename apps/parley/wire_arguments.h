// What parley serve and parley join have in common: --keys, --insecure.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "parley/wire/tls.h"

namespace parley::app {

struct KeyArguments {
  std::string folder;
  bool insecure = false, force = false;
  void add_to(CLI::App& command, const std::string& contents);
  // The keys of `name`, or nothing with --insecure. Throws InputError when they are missing or have expired, and for
  // --insecure beyond this machine unless it is forced.
  std::optional<wire::TlsFiles> files(const std::string& name, const std::string& address) const;
};

}  // namespace parley::app
