// A relay: a server to some clients of a federation, and to its server one node that stands for them. It folds their
// answers and sends the sum, so that the server has as many connections, and as much to receive, as there are relays.
//
//   nodes ── join ──▶ relay ── joins, once they are complete ──▶ server
//
// It takes the server's terms, and hands them and every broadcast on. It checks each answer as a server does. Which
// answers counted the server's next invitation says, for each client, so a relay may die at any moment: its clients are
// absent until it is started again, and neither they nor the server remember anything wrong.
//
// Threads:  run() on one; stop() from any.
// Failure:  InputError when the server refuses the relay, or the relay its terms.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "parley/engine/catalogue.h"
#include "parley/wire/log.h"
#include "parley/wire/network_executor.h"
#include "parley/wire/node.h"
#include "parley/wire/tls.h"

namespace parley::wire {

struct RelaySetup {
  std::string server;                  // the one above, "host:port"
  std::optional<TlsFiles> node_tls;    // its keys as a node there
  std::string address;                 // where its own nodes dial
  std::optional<TlsFiles> server_tls;  // its keys as their server
  std::filesystem::path revoked;       // list of revoked certificates; may be missing
  std::string name;
  std::filesystem::path folder;      // for its journal
  std::vector<std::size_t> clients;  // of the experiment's partition, that it stands for
  RoundRules rules;                  // deadline and window, for its own nodes
  const Catalogue* catalogue = nullptr;
  std::function<void(int port)> listening = {};  // once its nodes can dial
};

class Relay {
 public:
  // The log must outlive it.
  Relay(RelaySetup setup, const Log& log);
  ~Relay();

  void run();
  void stop();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace parley::wire
