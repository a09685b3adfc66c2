// parley relay: an aggregator between a federation's server and some of its nodes.
#include <atomic>

#include "commands.h"
#include "parley/base/errors.h"
#include "parley/wire/relay.h"
#include "parley/wire/signals.h"
#include "wire_arguments.h"

namespace parley::app {
namespace {

namespace fs = std::filesystem;

struct RelayArguments {
  std::string server, listen = "127.0.0.1:7778", name, clients, state;
  double deadline = 0.0;
  KeyArguments keys;
  bool json = false;
};

std::size_t number_in(const std::string& text, const std::string& all) {
  const bool digits = !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits) fail("--clients {}: expected numbers of clients, for example 0-3 or 0,2,5", all);
  return std::stoul(text);
}

// "0-3,7" is 0, 1, 2, 3, 7.
std::vector<std::size_t> clients_in(const std::string& text) {
  constexpr std::size_t kMost = 1'000'000;
  std::vector<std::size_t> clients;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const auto dash = part.find('-');
    const std::size_t first = number_in(part.substr(0, dash), text);
    const std::size_t last = dash == std::string::npos ? first : number_in(part.substr(dash + 1), text);
    if (last < first || last - first >= kMost) fail("--clients {}: {} is no range of clients", text, part);
    for (std::size_t client = first; client <= last; ++client) clients.push_back(client);
  }
  if (clients.empty()) fail("--clients: say which clients this relay stands for, for example --clients 0-3");
  return clients;
}

void relay(const RelayArguments& arguments) {
  refuse_ranks("relay");
  const wire::Log log(arguments.json ? wire::LogFormat::json : wire::LogFormat::text);
  std::atomic<wire::Relay*> running = nullptr;
  std::atomic<bool> asked = false;
  const wire::StopOnSignal signals([&] {
    asked = true;
    if (wire::Relay* relay = running) relay->stop();
  });
  wire::Relay relay(
      {.server = arguments.server,
       .node_tls = arguments.keys.files(arguments.name, arguments.server),
       .address = arguments.listen,
       .server_tls = arguments.keys.files("server", arguments.listen),
       .revoked = fs::path(arguments.keys.folder) / "revoked.txt",
       .name = arguments.name,
       .folder = arguments.state.empty() ? fs::path("runs") / ("relay-" + arguments.name) : fs::path(arguments.state),
       .clients = clients_in(arguments.clients),
       .rules = {.deadline = arguments.deadline, .quorum = 1},
       .catalogue = &catalogue(),
       .listening =
           [&](int port) {
             log.say("listening", {{"address", arguments.listen}, {"port", std::to_string(port)}});
           }},
      log);
  running = &relay;
  if (asked) relay.stop();
  relay.run();
  running = nullptr;
}

}  // namespace

void add_relay(CLI::App& app) {
  auto* command =
      app.add_subcommand("relay", "fold the answers of some nodes of a federation, between them and its server");
  auto arguments = std::make_shared<RelayArguments>();
  command->add_option("--server", arguments->server, "host:port of the server above")->required();
  command
      ->add_option("--clients", arguments->clients, "the clients of the experiment's [partition] that join here: 0-3")
      ->required();
  command->add_option("--name", arguments->name, "this relay's name, which its certificate as a node must bear")
      ->required();
  command->add_option("--listen", arguments->listen,
                      "address and port for its own nodes (default: 127.0.0.1:7778; port 0 takes a free one)");
  command
      ->add_option("--deadline", arguments->deadline,
                   "seconds after which it sends the sum without those that have not answered; less than the "
                   "server's (default: waits for all)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--state", arguments->state, "folder for its journal (default: runs/relay-NAME)");
  arguments->keys.add_to(*command, "ca.crt, NAME.crt, NAME.key, server.crt and server.key (see parley keys)");
  command->add_flag("--json", arguments->json, "log lines as JSON");
  command->callback([arguments] { relay(*arguments); });
}

}  // namespace parley::app
