// parley keys: who may take part in a federation.
#include "parley/wire/keys.h"

#include "commands.h"

namespace parley::app {
namespace {

struct KeysArguments {
  std::string folder = "keys", name;
  std::vector<std::string> hosts;
  int days = 365;
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
  add_days(*command, *arguments, 365);
  command->callback([arguments] {
    wire::make_certificate(arguments->folder, arguments->name, {}, arguments->days);
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
}

}  // namespace parley::app
