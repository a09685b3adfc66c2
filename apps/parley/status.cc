// parley status: what a running server is doing.
#include "commands.h"
#include "parley/base/errors.h"
#include "parley/wire/monitor.h"
#include "parley/wire/serve.h"
#include "terminal.h"

namespace parley::app {
namespace {

void status(const std::string& folder) {
  const auto file = wire::viewpoint_of(folder);
  if (!std::filesystem::exists(file)) {
    fail("{}: missing; expected the folder of a run of parley serve --monitor HOST:PORT", file.string());
  }
  const auto viewpoint = wire::read_viewpoint(file);
  const Json found = wire::ask_status(viewpoint);
  Table table({"node", "state", "last seen", "examples", "accepted", "refused", "received", "sent", "last refusal"});
  std::size_t connected = 0;
  for (const Json& node : found.at("nodes")) {
    connected += node.at("connected").get<bool>() ? 1 : 0;
    table.add({node.at("name"), node.at("doing"), node.at("last_seen"), node.at("examples").dump(),
               node.at("accepted").dump(), node.at("refused").dump(), bytes_text(node.at("bytes_in").get<double>()),
               bytes_text(node.at("bytes_out").get<double>()), node.at("last_refusal")});
  }
  fmt::print("round {}, {} of {} nodes connected; http://{}:{}/?token={}\n{}", found.at("round").dump(), connected,
             found.at("expected").dump(), viewpoint.host, viewpoint.port, viewpoint.token, table.text());
}

}  // namespace

void add_status(CLI::App& app) {
  auto* command = app.add_subcommand("status", "ask a running server of this machine what it is doing");
  auto folder = std::make_shared<std::string>();
  command->add_option("run", *folder, "its folder")->required();
  command->callback([folder] { status(*folder); });
}

}  // namespace parley::app
