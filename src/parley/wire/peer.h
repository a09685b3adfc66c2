// A peer: listens, holds models that come, trains them with the data that it has, and hands them on to a neighbour. No
// server knows of it.
//
// The walk is that of engine/peer (Hosting): where every peer lives, and one model travels, it ends with the bytes of
// parley run. A peer that cannot be reached is passed over; one that was killed goes on from its folder (wire/shelf.h),
// and a model that it held waits there for it.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parley/base/config.h"
#include "parley/engine/catalogue.h"
#include "parley/engine/experiment.h"
#include "parley/wire/log.h"
#include "parley/wire/tls.h"

namespace parley::wire {

// Who the peers are, in the order of the experiment's clients.
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

struct PeerSetup {
  const Experiment* experiment = nullptr;
  std::vector<PeerAddress> peers;
  std::size_t self = 0;  // which of them this is
  std::string listen;    // "host:port"; port 0 takes a free one
  std::optional<TlsFiles> tls;
  std::filesystem::path revoked;  // list of revoked certificates; may be missing
  std::filesystem::path folder;
  // How long peers that cannot be reached when the run ends have to come back and hear it.
  std::chrono::milliseconds farewell = std::chrono::seconds(12);
};

class Peer {
 public:
  // The experiment and the log must outlive it. Throws InputError for an experiment that peers cannot run, keys that
  // cannot be read, a folder that is in use or another run's, or an address that cannot be had.
  Peer(PeerSetup setup, const Log& log);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  int port() const;
  // Until all models have ended and model.safetensors is in the folder: true; or stop(): false. Throws RunError when
  // the disk is full or a model diverged.
  bool run();
  // From any thread.
  void stop();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace parley::wire
