// parley audit: what a federation's server did, and whether its log is whole.
#include "commands.h"
#include "parley/base/counted.h"
#include "parley/base/errors.h"
#include "parley/wire/enrol.h"
#include "parley/wire/journal.h"
#include "parley/wire/serve.h"

namespace parley::app {
namespace {

// One event a line, whatever the names and reasons in it hold.
std::string one_line(const wire::AuditEntry& entry) {
  std::string text = fmt::format("{:>6}  {}  {:<14}  {:<20}  round {:<5}  {}", entry.number, entry.time, entry.event,
                                 entry.node, entry.round, entry.detail);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return text;
}

void audit(const std::string& folder, bool quiet) {
  auto file = wire::journal_of(folder);
  if (!std::filesystem::exists(file)) file = wire::desk_journal_of(folder);
  if (!std::filesystem::exists(file)) {
    fail("{}: no journal there; expected the folder of a run of parley serve, or the keys of parley keys desk",
         wire::journal_of(folder).string());
  }
  const auto entries = wire::read_audit(file);
  if (!quiet) {
    for (const auto& entry : entries) fmt::print("{}\n", one_line(entry));
  }
  if (const auto broken = wire::first_broken(entries); broken != 0) {
    fail<RunError>("{}: the chain breaks at entry {}: it or one before it was changed, removed or inserted",
                   file.string(), broken);
  }
  fmt::print("{}, the chain is whole; it ends with {}\n", counted(entries.size(), "entry", "entries"),
             entries.empty() ? "nothing" : entries.back().hash);
}

}  // namespace

void add_audit(CLI::App& app) {
  auto* command = app.add_subcommand("audit", "show and verify the audit log of a run of parley serve");
  auto folder = std::make_shared<std::string>();
  auto quiet = std::make_shared<bool>(false);
  command->add_option("run", *folder, "its folder; or that of a desk's keys")->required();
  command->add_flag("--quiet", *quiet, "only verify");
  command->callback([folder, quiet] { audit(*folder, *quiet); });
}

}  // namespace parley::app
