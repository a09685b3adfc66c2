// parley peer: a federation without a server; models travel from node to node, or are mixed with the neighbours'.
#include <atomic>
#include <chrono>
#include <cmath>

#include "commands.h"
#include "parley/base/errors.h"
#include "parley/wire/peer.h"
#include "parley/wire/signals.h"
#include "wire_arguments.h"

namespace parley::app {
namespace {

namespace fs = std::filesystem;

struct PeerArguments {
  ExperimentArguments experiment;
  std::string peers, name, listen, out;
  std::vector<std::string> data;
  KeyArguments keys;
  double patience = 10.0;
  bool json = false;
};

std::size_t find_self(const std::vector<wire::PeerAddress>& peers, const PeerArguments& arguments) {
  std::vector<std::string> names;
  for (const auto& peer : peers) names.push_back(peer.name);
  const auto found = std::ranges::find(names, arguments.name);
  if (found == names.end()) fail("{}: {}", arguments.peers, unknown_name("peer", arguments.name, names));
  return static_cast<std::size_t>(found - names.begin());
}

void peer(const PeerArguments& arguments) {
  refuse_ranks("peer");
  std::atomic<wire::Peer*> running = nullptr;
  std::atomic<bool> asked = false;
  const wire::StopOnSignal signals([&] {
    asked = true;
    if (wire::Peer* held = running) held->stop();
  });
  const auto peers = wire::read_peers(arguments.peers);
  const std::size_t self = find_self(peers, arguments);
  const std::string listen = arguments.listen.empty() ? peers[self].address : arguments.listen;
  const Experiment experiment =
      wire::peer_experiment(arguments.experiment.read(), arguments.data, peers, self, catalogue());
  const fs::path folder =
      arguments.out.empty() ? fs::path("runs") / ("peer-" + arguments.name) : fs::path(arguments.out);
  for (const auto& other : peers) arguments.keys.files(arguments.name, other.address);  // --insecure: none is elsewhere
  const wire::Log log(arguments.json ? wire::LogFormat::json : wire::LogFormat::text);
  wire::Peer held({.experiment = &experiment,
                   .peers = peers,
                   .self = self,
                   .listen = listen,
                   .tls = arguments.keys.files(arguments.name, listen),
                   .revoked = fs::path(arguments.keys.folder) / "revoked.txt",
                   .folder = folder,
                   .patience = std::chrono::milliseconds(std::llround(arguments.patience * 1000.0))},
                  log);
  log.say("listening", {{"address", listen}, {"port", std::to_string(held.port())}});
  running = &held;
  if (asked) held.stop();
  const bool finished = held.run();
  running = nullptr;
  if (!finished) {
    fmt::print("stopped; start again to go on\n");
    return;
  }
  fmt::print("done; the model is in {}\n", (folder / "model.safetensors").string());
}

}  // namespace

void add_peer(CLI::App& app) {
  auto* command = app.add_subcommand("peer", "take part in a federation without a server: peers exchange models");
  auto arguments = std::make_shared<PeerArguments>();
  arguments->experiment.add_to(*command);
  command->add_option("--name", arguments->name, "this peer's name, which its certificate must bear")->required();
  command
      ->add_option("--peers", arguments->peers,
                   "file with a line NAME HOST:PORT for each client, in their order; with data of one's own NAME "
                   "HOST:PORT EXAMPLES")
      ->required();
  command->add_option("--data", arguments->data, "a key of [data]: --data name=csv --data path=FILE")
      ->allow_extra_args(false);
  command->add_option("--listen", arguments->listen, "address and port (default: the peer's own in --peers)");
  command->add_option("--out", arguments->out, "folder for its models and results (default: runs/peer-NAME)");
  arguments->keys.add_to(*command, "ca.crt, NAME.crt and NAME.key (parley keys node NAME --host …), and revoked.txt");
  command
      ->add_option("--patience", arguments->patience,
                   "dpsgd, gossip: seconds that a peer who cannot be reached is waited for, before it is passed over "
                   "(default: 10)")
      ->check(CLI::Range(0.0, 86400.0));
  command->add_flag("--json", arguments->json, "log lines as JSON");
  command->callback([arguments] { peer(*arguments); });
}

}  // namespace parley::app
