#include "wire_arguments.h"

#include "parley/base/errors.h"
#include "parley/wire/keys.h"

namespace parley::app {
namespace {

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address.starts_with("localhost:") || address.starts_with("[::1]:");
}

}  // namespace

void KeyArguments::add_to(CLI::App& command, const std::string& contents) {
  command.add_option("--keys", folder, "folder with " + contents);
  command.add_flag("--insecure", insecure, "no TLS: anybody may listen, and claim to be anybody; on this machine only");
  command.add_flag("--force-insecure", force, "no TLS, and beyond this machine");
}

std::optional<wire::TlsFiles> KeyArguments::files(const std::string& name, const std::string& address) const {
  if (force) return {};
  if (insecure && !is_loopback(address)) {
    fail("--insecure: {} is beyond this machine; use --keys, or --force-insecure on a network that you trust", address);
  }
  if (insecure) return {};
  if (folder.empty())
    fail("--keys: say where the keys are (make them with parley keys), or use --insecure on loopback");
  const std::filesystem::path keys = folder;
  wire::TlsFiles files{keys / "ca.crt", keys / (name + ".crt"), keys / (name + ".key")};
  for (const auto& file : {files.authority, files.certificate, files.key}) {
    if (!std::filesystem::exists(file)) fail("{}: missing; make it with parley keys", file.string());
  }
  if (const auto facts = wire::read_certificate(files.certificate); facts.expired) {
    fail("{}: the certificate of '{}' ended on {}; make a new one with parley keys", files.certificate.string(),
         facts.name, facts.until);
  }
  return files;
}

}  // namespace parley::app
