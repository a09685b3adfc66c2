// parley join: a node of a federation.
#include <atomic>

#include "commands.h"
#include "parley/base/errors.h"
#include "parley/wire/node.h"
#include "parley/wire/prepare.h"
#include "parley/wire/signals.h"
#include "wire_arguments.h"

namespace parley::app {
namespace {

struct JoinArguments {
  std::string file, server, name, state;
  std::vector<std::string> data;
  std::int64_t client = -1;
  KeyArguments keys;
  bool json = false;
};

void join(const JoinArguments& arguments) {
  refuse_ranks("join");
  const std::string name = !arguments.name.empty() ? arguments.name
                           : arguments.client >= 0 ? fmt::format("client-{}", arguments.client)
                                                   : "";
  if (name.empty()) fail("--name: say what this node is called, for example --name clinic-a");
  const wire::Log log(arguments.json ? wire::LogFormat::json : wire::LogFormat::text);
  std::atomic<wire::Node*> running = nullptr;
  std::atomic<bool> asked = false;
  const wire::StopOnSignal signals([&] {
    asked = true;
    if (wire::Node* node = running) node->stop();
  });
  wire::NodeData data{.file = arguments.file, .data = arguments.data};
  if (arguments.client >= 0) data.client = static_cast<std::size_t>(arguments.client);
  wire::Node node({.server = arguments.server,
                   .tls = arguments.keys.files(name, arguments.server),
                   .name = name,
                   .folder = arguments.state.empty() ? std::filesystem::path("runs") / ("node-" + name)
                                                     : std::filesystem::path(arguments.state),
                   .prepare = wire::preparer(std::move(data), catalogue())},
                  log);
  running = &node;
  if (asked) node.stop();
  node.run();
  running = nullptr;
}

}  // namespace

void add_join(CLI::App& app) {
  auto* command = app.add_subcommand("join", "take part in a federation as a node, with data of one's own");
  auto arguments = std::make_shared<JoinArguments>();
  command->add_option("file", arguments->file,
                      "an experiment file of one's own, with [data]; without it the server's settings count");
  command->add_option("--server", arguments->server, "its host:port")->required();
  command->add_option("--name", arguments->name, "this node's name, which its certificate must bear");
  command->add_option("--client", arguments->client, "be this client of the experiment's [partition]")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--data", arguments->data, "a key of [data]: --data name=csv --data path=FILE")
      ->allow_extra_args(false);
  command->add_option("--state", arguments->state, "folder for what the node remembers (default: runs/node-NAME)");
  arguments->keys.add_to(*command, "ca.crt, NAME.crt and NAME.key (see parley keys)");
  command->add_flag("--json", arguments->json, "log lines as JSON");
  command->callback([arguments] { join(*arguments); });
}

}  // namespace parley::app
