// Who the peers of a run are, and the experiment as one of them has it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "parley/base/config.h"
#include "parley/engine/catalogue.h"
#include "parley/engine/experiment.h"

namespace parley::wire {

// In the order of the experiment's clients.
struct PeerAddress {
  std::string name, address;  // "host:port"
  std::size_t examples = 0;   // of its own data; 0 at all peers: they hold what a partition deals them
};
// One "NAME HOST:PORT [EXAMPLES]" a line; '#' begins a comment. Throws InputError.
std::vector<PeerAddress> read_peers(const std::filesystem::path& file);
// The experiment as this peer has it. Where the list says how many examples each holds, they are those of `data`
// ("key=value" of [data]), and nobody else's are here. Throws InputError.
Experiment peer_experiment(Config config, const std::vector<std::string>& data, const std::vector<PeerAddress>& peers,
                           std::size_t self, const Catalogue& catalogue);

// The fingerprint of what must be the same at all peers.
std::string name_of_run(const Experiment& experiment, const std::vector<PeerAddress>& peers);

}  // namespace parley::wire
