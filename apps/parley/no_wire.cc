// The commands of a federation, in a program that was built without gRPC.
#include "commands.h"
#include "live.h"
#include "parley/base/errors.h"

namespace parley::app {
namespace {

[[noreturn]] void refuse(const std::string& name) {
  fail(
      "this parley was built without gRPC, which {} needs; install libgrpc++-dev, libprotobuf-dev, "
      "protobuf-compiler-grpc, libsqlite3-dev and libcpp-httplib-dev (scripts/setup does) and build again",
      name);
}

void add_missing(CLI::App& app, const std::string& name) {
  auto* command = app.add_subcommand(name, "(not in this build)");
  command->allow_extras();
  command->callback([name] { refuse(name); });
}

}  // namespace

std::unique_ptr<LivePage> open_live_page(const std::string&, const std::filesystem::path&) {
  refuse("run --serve");
}

void add_serve(CLI::App& app) {
  add_missing(app, "serve");
}
void add_join(CLI::App& app) {
  add_missing(app, "join");
}
void add_peer(CLI::App& app) {
  add_missing(app, "peer");
}
void add_relay(CLI::App& app) {
  add_missing(app, "relay");
}
void add_keys(CLI::App& app) {
  add_missing(app, "keys");
}
void add_status(CLI::App& app) {
  add_missing(app, "status");
}
void add_audit(CLI::App& app) {
  add_missing(app, "audit");
}

}  // namespace parley::app
