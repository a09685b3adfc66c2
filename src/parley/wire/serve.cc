#include "parley/wire/serve.h"

#include <algorithm>
#include <thread>

#include "parley/base/errors.h"
#include "parley/store/folder_lock.h"
#include "parley/wire/compression.h"
#include "parley/wire/folded.h"
#include "parley/wire/keys.h"
#include "parley/wire/monitor.h"
#include "parley/wire/network_errands.h"
#include "parley/wire/network_executor.h"
#include "parley/wire/prepare.h"
#include "parley/wire/server.h"

namespace parley::wire {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

void refuse_unfit(const Settings& settings) {
  if (settings.among_peers) {
    fail("method.name = \"{}\": peers have no server; run it with parley run", settings.method.text("name"));
  }
  if (settings.evaluate.flag("clients") && settings.server.text("rounds") == "buffered") {
    fail("evaluate.clients = true: with buffered rounds nodes are always at work, and none is free to test; set false");
  }
  if (settings.evaluate.integer("finetune") > 0) {
    fail("evaluate.finetune = {}: nodes test and do not fine-tune; set 0", settings.evaluate.integer("finetune"));
  }
  if (settings.run.integer("checkpoint_every") != 1) {
    fail("run.checkpoint_every = {}: a server must be able to go on after any round; set 1",
         settings.run.integer("checkpoint_every"));
  }
  for (const char* key : {"quorum", "enough"}) {
    if (settings.serve.integer(key) > 0 && settings.server.integer("min_clients") == 0) {
      fail(
          "serve.{} = {}: a round with fewer than half of its cohort stops the run unless server.min_clients says less;"
          " set that too",
          key, settings.serve.integer(key));
    }
  }
  if (settings.serve.integer("nodes") > 0 && settings.server.integer("examples") > 0) {
    fail("server.examples = {}: they would be taken from the clients, whose data are not here (serve.nodes); set 0",
         settings.server.integer("examples"));
  }
}

// What would need each client's own answer, and not a relay's sum of them.
std::string why_no_relays(const Experiment& experiment) {
  const Settings& settings = experiment.settings;
  const char* remedy = "its nodes must join the server itself";
  for (const auto& channel : experiment.method->schema().channels) {
    if (channel.weighting != Weighting::each) continue;
    return fmt::format("{} needs the '{}' of each client, and a relay sends a sum; {}", settings.method.text("name"),
                       channel.name, remedy);
  }
  if (settings.server.text("rounds") == "buffered") {
    return fmt::format("server.rounds = \"buffered\" brings each late answer forward by itself; {}", remedy);
  }
  if (settings.server.real("round_seconds") > 0.0) {
    return fmt::format("server.round_seconds goes by how long each client takes; {}", remedy);
  }
  if (settings.evaluate.flag("clients")) {
    return fmt::format("evaluate.clients = true asks each node for its own test; {}", remedy);
  }
  return "";
}

JoinTerms terms_of(const Experiment& experiment) {
  const auto nodes = static_cast<std::size_t>(experiment.settings.serve.integer("nodes"));
  return {.config = experiment.settings.to_toml(),
          .agreement = agreement_of(experiment),
          .rows = nodes == 0,
          .sizes = nodes == 0 ? experiment.sizes : std::vector<std::size_t>(nodes),
          .moments = nodes == 0 ? WantedMoments{} : moments_wanted(experiment),
          .scales = {.inputs = experiment.federated.data.train->transform, .targets = {}},
          .compress = experiment.settings.serve.text("compression") == kZstd,
          .no_relays = why_no_relays(experiment)};
}

RoundRules rules_of(const Settings& settings) {
  const auto count = [&](const char* key) { return static_cast<std::size_t>(settings.serve.integer(key)); };
  const auto least = static_cast<std::size_t>(settings.server.integer("min_clients"));
  return {.deadline = settings.serve.real("deadline"),
          .quorum = std::max(count("quorum"), least),
          .enough = count("enough"),
          .window = count("window"),
          .uniform_weights = settings.server.text("weighting") == "uniform"};
}

std::vector<std::size_t> sizes_of(const std::vector<Member>& members) {
  std::vector<std::size_t> sizes(members.size());
  for (const Member& member : members) sizes.at(member.client) = member.examples;
  return sizes;
}

std::unique_ptr<Monitor> open_window(const ServeSetup& setup, const Hub& hub, const Log& log) {
  if (setup.monitor.empty()) return nullptr;
  const std::string token = new_token(), host = setup.monitor.substr(0, setup.monitor.rfind(':'));
  auto monitor = std::make_unique<Monitor>(setup.monitor, token,
                                           Window{.status = [&hub] { return hub.status(); }, .report = setup.report});
  write_viewpoint(viewpoint_of(setup.folder), {host == "0.0.0.0" ? "127.0.0.1" : host, monitor->port(), token});
  log.say("monitor", {{"address", fmt::format("{}:{}", host, monitor->port())},
                      {"token_in", viewpoint_of(setup.folder).string()}});
  return monitor;
}

void note_end(Journal& journal, const std::string& reason) {
  try {
    journal.audit("stopped", "", 0, reason);
  } catch (const RunError&) {
    // The disk may be what failed; the first error is the one to report.
  }
}

}  // namespace

void say_farewell(Hub& hub, std::chrono::milliseconds patience, bool finished, const std::string& reason) {
  const auto until = Clock::now() + patience;
  const bool all_here = hub.finish(finished, reason);
  while (Clock::now() < until && !(hub.deserted() && (all_here || !finished))) std::this_thread::sleep_for(20ms);
}

fs::path journal_of(const fs::path& run_folder) {
  return run_folder / "federation" / "journal.sqlite";
}

fs::path viewpoint_of(const fs::path& run_folder) {
  return run_folder / "federation" / "monitor.json";
}

RunSummary serve(const ServeSetup& setup, const Log& log) {
  refuse_unfit(setup.settings);
  DataCache cache;
  // Until they have joined, nodes with data of their own hold something.
  const std::vector<std::size_t> something(static_cast<std::size_t>(setup.settings.serve.integer("nodes")), 1);
  Experiment experiment = build(setup.settings, *setup.catalogue, cache, something);
  JoinTerms terms = terms_of(experiment);
  const bool rows = terms.rows;
  make_folder(journal_of(setup.folder).parent_path());
  const FolderLock lock(journal_of(setup.folder).parent_path());
  Journal journal(journal_of(setup.folder), terms.agreement.settings);
  RevocationList revoked(setup.revoked);
  const SharedSchema schema = share(experiment.method->schema());
  Hub hub(
      std::move(terms), longest_update(schema), journal, log,
      [&](const std::string& serial) { return revoked.contains(serial); },
      [&](std::size_t clients) { return longest_folded(schema, clients); });
  const Server server(hub, setup.address, setup.tls);
  const auto monitor = open_window(setup, hub, log);
  journal.audit("started", "", 0, setup.address);
  if (setup.listening) setup.listening(server.port(), hub);
  try {
    const auto members = hub.await_complete();
    if (!members) throw Stopped("stopped before all nodes had joined; start again to go on");
    if (!rows) {
      experiment = build(setup.settings, *setup.catalogue, cache, sizes_of(*members));
      see_as(experiment, hub.scales());
    }
    const auto crew = [&](Workers&, const DataOf&, ClientStore&) {
      return std::make_unique<NetworkExecutor>(hub, journal, log, rules_of(setup.settings));
    };
    const auto messengers = [&](const ErrandTools&) {
      return std::make_unique<NetworkErrands>(hub, journal, log, rules_of(setup.settings));
    };
    RunSummary summary = run_experiment(experiment, setup.folder,
                                        {.threads = setup.threads,
                                         .resume = fs::exists(setup.folder / "config.toml"),
                                         .save_every_round = true,
                                         .make_executor = crew,
                                         .make_errands = messengers,
                                         .progress = setup.progress});
    journal.audit("finished", "", summary.metrics.size(), journal.head());
    say_farewell(hub, setup.farewell, true, "the run is over");
    return summary;
  } catch (const Error& error) {
    say_farewell(hub, setup.farewell, false, "the server stops; it may be back");
    note_end(journal, error.what());
    throw;
  }
}

}  // namespace parley::wire
