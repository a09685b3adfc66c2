// A peer: listens, trains with the data that it has, and deals with its neighbours directly. No server knows of it.
//
// Models travel (mm, smm, cyclic), or stay and are mixed with the neighbours' (dpsgd, gossip). The arithmetic is that
// of engine/peer (Hosting, mixing): where every peer lives, one model that travels and dpsgd end with the bytes of
// parley run. A peer that cannot be reached is passed over; one that was killed goes on from its folder.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parley/wire/log.h"
#include "parley/wire/peer_list.h"
#include "parley/wire/tls.h"

namespace parley::wire {

class Station;

struct PeerSetup {
  const Experiment* experiment = nullptr;
  std::vector<PeerAddress> peers;
  std::size_t self = 0;  // which of them this is
  std::string listen;    // "host:port"; port 0 takes a free one
  std::optional<TlsFiles> tls;
  std::filesystem::path revoked;  // list of revoked certificates; may be missing
  std::filesystem::path folder;
  // Where models stay: how long neighbours that cannot be reached are waited for, before they are passed over.
  std::chrono::milliseconds patience = std::chrono::seconds(10);
  // How long peers that cannot be reached when the run ends have to come back and hear it.
  std::chrono::milliseconds farewell = std::chrono::seconds(12);
};

class Peer {
 public:
  // The experiment and the log must outlive it. Throws InputError for an experiment that peers cannot run, keys that
  // cannot be read, a folder that is in use or another run's, or an address that cannot be had.
  Peer(const PeerSetup& setup, const Log& log);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  int port() const;
  // Until the run has ended and model.safetensors is in the folder: true; or stop(): false. Throws RunError when
  // the disk is full or a model diverged.
  bool run();
  // From any thread.
  void stop();

 private:
  std::unique_ptr<Station> station_;
};

}  // namespace parley::wire
