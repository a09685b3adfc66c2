// parley keys: who may take part in a federation.
#include "parley/wire/keys.h"

#include <condition_variable>
#include <iostream>
#include <mutex>

#include "commands.h"
#include "parley/wire/enrol.h"
#include "parley/wire/signals.h"

namespace parley::app {
namespace {

struct KeysArguments {
  std::string folder = "keys", name;
  std::vector<std::string> hosts;
  int days = 365;
  double hours = 72;
  std::string listen = "127.0.0.1:7776", desk, token;
  bool json = false;
};

CLI::App* subcommand(CLI::App& keys, KeysArguments& arguments, const std::string& name, const std::string& meaning) {
  auto* command = keys.add_subcommand(name, meaning);
  command->add_option("--folder", arguments.folder, "the authority's folder (default: keys)");
  return command;
}

void add_days(CLI::App& command, KeysArguments& arguments, int days) {
  arguments.days = days;
  command.add_option("--days", arguments.days, fmt::format("how long it is valid (default: {})", days))
      ->check(CLI::Range(1, 36500));
}

void add_hosts(CLI::App& command, KeysArguments& arguments) {
  command
      .add_option("--host", arguments.hosts,
                  "for parley peer: where others find it, a name or address; may be repeated")
      ->allow_extra_args(false);
}

void say_made(const std::filesystem::path& folder, const std::string& name) {
  const auto facts = wire::read_certificate(folder / (name + ".crt"));
  fmt::print("{}: {} until {}; keep {}.key secret\n", (folder / (name + ".crt")).string(), facts.name, facts.until,
             name);
}

void add_ca(CLI::App& keys) {
  auto arguments = std::make_shared<KeysArguments>();
  arguments->name = "parley federation";
  auto* command = subcommand(keys, *arguments, "ca", "make the authority that signs everybody's certificate");
  command->add_option("--name", arguments->name, "the federation's name");
  add_days(*command, *arguments, 3650);
  command->callback([arguments] {
    wire::make_authority(arguments->folder, arguments->name, arguments->days);
    say_made(arguments->folder, "ca");
  });
}

void add_server(CLI::App& keys) {
  auto arguments = std::make_shared<KeysArguments>();
  auto* command = subcommand(keys, *arguments, "server", "make the server's certificate");
  command->add_option("--host", arguments->hosts, "the name or address under which nodes find it; may be repeated")
      ->required()
      ->allow_extra_args(false);
  add_days(*command, *arguments, 365);
  command->callback([arguments] {
    wire::make_certificate(arguments->folder, "server", arguments->hosts, arguments->days);
    say_made(arguments->folder, "server");
  });
}

void add_node(CLI::App& keys) {
  auto arguments = std::make_shared<KeysArguments>();
  auto* command = subcommand(keys, *arguments, "node", "make a node's certificate");
  command->add_option("name", arguments->name, "the node's name")->required();
  add_hosts(*command, *arguments);
  add_days(*command, *arguments, 365);
  command->callback([arguments] {
    wire::require_node_name(arguments->name);
    wire::make_certificate(arguments->folder, arguments->name, arguments->hosts, arguments->days);
    say_made(arguments->folder, arguments->name);
  });
}

void add_token(CLI::App& keys) {
  auto arguments = std::make_shared<KeysArguments>();
  auto* command = subcommand(keys, *arguments, "token", "make a one-time token, with which a node enrols itself");
  command->add_option("name", arguments->name, "the node's name")->required();
  add_hosts(*command, *arguments);
  command->add_option("--hours", arguments->hours, "how long the token is valid (default: 72)")
      ->check(CLI::Range(0.0, 8760.0));
  add_days(*command, *arguments, 365);
  command->callback([arguments] {
    fmt::print("{}\n", wire::make_token(arguments->folder, {.name = arguments->name,
                                                            .hosts = arguments->hosts,
                                                            .hours = arguments->hours,
                                                            .days = arguments->days}));
  });
}

// Until a signal.
void sit_at_desk(const KeysArguments& arguments) {
  std::mutex mutex;
  std::condition_variable changed;
  bool asked = false;
  const wire::StopOnSignal signals([&] {
    const std::lock_guard lock(mutex);
    asked = true;
    changed.notify_all();
  });
  const wire::Log log(arguments.json ? wire::LogFormat::json : wire::LogFormat::text);
  wire::Desk desk(arguments.folder, log);
  const wire::DeskServer server(desk, arguments.folder, arguments.listen);
  log.say("listening", {{"address", arguments.listen}, {"port", std::to_string(server.port())}});
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return asked; });
}

void add_desk(CLI::App& keys) {
  auto arguments = std::make_shared<KeysArguments>();
  auto* command = subcommand(keys, *arguments, "desk", "sign the certificates of nodes that bring a token");
  command->add_option("--listen", arguments->listen,
                      "address and port (default: 127.0.0.1:7776; port 0 takes a free one)");
  command->add_flag("--json", arguments->json, "log lines as JSON");
  command->callback([arguments] { sit_at_desk(*arguments); });
}

void add_enrol(CLI::App& keys) {
  auto arguments = std::make_shared<KeysArguments>();
  auto* command = keys.add_subcommand("enrol", "get this node's certificate with a token");
  command->add_option("name", arguments->name, "the node's name, for which the token is")->required();
  command->add_option("--desk", arguments->desk, "the host:port of parley keys desk")->required();
  command->add_option("--token", arguments->token, "what parley keys token printed; - reads it from the standard input")
      ->required();
  command->add_option("--folder", arguments->folder, "where to put ca.crt, NAME.crt and NAME.key (default: keys)");
  command->callback([arguments] {
    if (arguments->token == "-") std::getline(std::cin, arguments->token);
    wire::enrol(arguments->desk, arguments->name, arguments->token, arguments->folder);
    say_made(arguments->folder, arguments->name);
  });
}

void add_revoke(CLI::App& keys) {
  auto arguments = std::make_shared<KeysArguments>();
  auto* command = subcommand(keys, *arguments, "revoke", "void a certificate");
  command->add_option("name", arguments->name, "whose")->required();
  command->callback([arguments] {
    wire::revoke(arguments->folder, arguments->name);
    fmt::print("{} is revoked; copy {}/revoked.txt to the server's keys, which it reads while it runs\n",
               arguments->name, arguments->folder);
  });
}

}  // namespace

void add_keys(CLI::App& app) {
  auto* keys = app.add_subcommand("keys", "make and revoke the certificates of a federation");
  keys->require_subcommand(1);
  add_ca(*keys);
  add_server(*keys);
  add_node(*keys);
  add_revoke(*keys);
  add_token(*keys);
  add_desk(*keys);
  add_enrol(*keys);
}

}  // namespace parley::app
