#include "parley/wire/peer_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "parley/base/errors.h"
#include "parley/base/files.h"
#include "parley/base/fingerprint.h"
#include "parley/wire/keys.h"
#include "parley/wire/protocol.h"

namespace parley::wire {

namespace fs = std::filesystem;

std::string name_of_run(const Experiment& experiment, const std::vector<PeerAddress>& peers) {
  const Agreement agreed = agreement_of(experiment);
  std::string text = agreed.layout + agreed.initial + agreed.settings + agreed.task;
  for (const auto& name : agreed.classes) text += name + "\n";
  for (const auto& name : agreed.columns) text += name + "\n";
  const Settings& settings = experiment.settings;
  text += fmt::format("rounds = {}\n", settings.run.integer("rounds"));
  for (const auto& [name, options] : settings.sections()) {
    if (name != "peer" && name != "graph" && name != "partition" && name != "server") continue;
    for (const auto& [key, value] : options->values()) text += fmt::format("{}.{} = {}\n", name, key, to_toml(value));
  }
  for (const std::size_t size : experiment.sizes) text += fmt::format("{} ", size);
  for (const auto& peer : peers) text += peer.name + "\n";
  return fingerprint(text);
}

std::vector<PeerAddress> read_peers(const fs::path& file) {
  std::istringstream lines(read_file(file));
  std::vector<PeerAddress> peers;
  std::set<std::string> names;
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    PeerAddress peer;
    std::string more;
    if (!(words >> peer.name)) continue;
    const bool placed = static_cast<bool>(words >> peer.address) && peer.address.find(':') != std::string::npos;
    const bool sized = static_cast<bool>(words >> peer.examples);
    if (!sized) peer.examples = 0;
    if (!placed || (!sized && !words.eof()) || (sized && (peer.examples == 0 || words >> more))) {
      fail("{}, line {}: expected NAME HOST:PORT, or NAME HOST:PORT EXAMPLES", file.string(), number);
    }
    if (!peers.empty() && (peers.front().examples > 0) != sized) {
      fail("{}, line {}: either all peers have a number of examples, or none", file.string(), number);
    }
    require_node_name(peer.name);
    if (!names.insert(peer.name).second) fail("{}, line {}: '{}' is there twice", file.string(), number, peer.name);
    peers.push_back(std::move(peer));
  }
  return peers;
}

namespace {

// Its own rows under its own number.
void take_place(Experiment& experiment, std::size_t self) {
  const auto own = experiment.federated.partition.clients[0];
  const std::vector<std::uint32_t> rows(own.begin(), own.end());
  RowLists lists;
  for (std::size_t node = 0; node < experiment.clients(); ++node) {
    lists.push_back(node == self ? std::span<const std::uint32_t>(rows) : std::span<const std::uint32_t>());
  }
  experiment.federated.partition.clients = std::move(lists);
}

}  // namespace

Experiment peer_experiment(Config config, const std::vector<std::string>& data, const std::vector<PeerAddress>& peers,
                           std::size_t self, const Catalogue& catalogue) {
  for (const auto& assignment : data) config.set("data." + assignment);
  DataCache cache;
  if (peers[self].examples == 0) {
    if (!data.empty()) {
      fail(
          "--data: these peers hold what the file's [partition] deals them; to bring data of one's own, give every "
          "line "
          "of --peers a number of examples");
    }
    return build(resolve(config, catalogue), catalogue, cache);
  }
  config.erase("partition");
  config.set("partition.kind=iid");
  config.set("partition.clients=1");
  std::vector<std::size_t> sizes;
  for (const auto& peer : peers) sizes.push_back(peer.examples);
  Experiment experiment = build(resolve(config, catalogue), catalogue, cache, sizes);
  if (const std::size_t here = experiment.federated.partition.clients[0].size(); here != sizes[self]) {
    fail("--peers says that '{}' holds {} training examples, and its data have {}; correct the list at all peers",
         peers[self].name, sizes[self], here);
  }
  if (const WantedMoments wanted = moments_wanted(experiment); wanted.inputs > 0 || wanted.targets > 0) {
    fail(
        "data.normalize, data.scale_targets: without a server nobody measures the scales of all data; set "
        "data.normalize = \"none\" or \"unit\" and data.scale_targets = false, and bring the numbers to one scale "
        "before");
  }
  take_place(experiment, self);
  return experiment;
}

}  // namespace parley::wire
