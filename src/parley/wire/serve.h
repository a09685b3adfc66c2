// A whole federation from the server's end: nodes join, the run is played, they are told that it is over.
//
// Started again with the same settings and folder it goes on after the last finished round, however it ended.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "parley/engine/run.h"
#include "parley/wire/hub.h"
#include "parley/wire/tls.h"

namespace parley::wire {

struct ServeSetup {
  Settings settings;
  const Catalogue* catalogue = nullptr;
  std::filesystem::path folder;
  std::string address;
  std::optional<TlsFiles> tls;
  std::filesystem::path revoked;  // list of revoked certificates; may be missing
  std::size_t threads = 1;
  Progress* progress = nullptr;
  std::string monitor;                  // where it can be looked at (wire/monitor.h); empty: nowhere
  std::function<std::string()> report;  // the page of the run, for that
  // How long nodes that are away when the run ends have to come back and hear it: more than their longest back-off.
  std::chrono::milliseconds farewell = std::chrono::seconds(12);
  // Once nodes can dial, with the port; the hub lives until serve() returns.
  std::function<void(int port, Hub& hub)> listening;
};

// Throws InputError, RunError, and Stopped after hub.stop().
RunSummary serve(const ServeSetup& setup, const Log& log);

// Tells all nodes that this is the end, and waits until they have heard it; for who was away as long as `patience`.
void say_farewell(Hub& hub, std::chrono::milliseconds patience, bool finished, const std::string& reason);

// Where a run folder has its journal, and says where its server can be looked at.
std::filesystem::path journal_of(const std::filesystem::path& run_folder);
std::filesystem::path viewpoint_of(const std::filesystem::path& run_folder);

}  // namespace parley::wire
