// A node of a federation: dials the server, answers its invitations with the data that it has, and never hands over
// anything else. Comes back by itself when the connection or the server is lost.
//
// Training goes on while the connection is down, and an answer is kept until the server has judged it: whoever
// comes back in the middle of a round need not train again. What a client remembers (control variates, private weights)
// stays in the node's folder, one version for each round, because only the server's next invitation says which of its
// answers counted.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "parley/data/normalize.h"
#include "parley/engine/experiment.h"
#include "parley/wire/log.h"
#include "parley/wire/tls.h"
#include "parley/wire/worker.h"

namespace parley::wire {

// What a node trains on.
struct OwnExperiment {
  std::shared_ptr<const Experiment> experiment;
  std::size_t row = 0;  // which client of the experiment's partition it is
};

// What a server says before anything else.
struct ServerTerms {
  std::string config;  // its settings, as an experiment file
  bool rows = true;    // nodes hold what the partition in them deals; otherwise data of their own
  // With data of their own: whether their moments are asked for.
  bool measure_inputs = false, measure_targets = false;

  bool operator==(const ServerTerms&) const = default;
};

// What only the complete federation knows.
struct Whole {
  std::vector<std::size_t> sizes;  // of all clients; empty: it is not complete yet
  Scales scales = {};              // that all nodes with data of their own use
};

struct NodeSetup {
  std::string server;  // "host:port"
  std::optional<TlsFiles> tls;
  std::string name;
  std::filesystem::path folder;  // for what it remembers
  // Throws InputError: the node cannot take part.
  std::function<OwnExperiment(const ServerTerms& terms, const Whole& whole)> prepare;
  // Of a relay: the clients that it stands for, and who has them answer; empty: a node that trains itself.
  std::vector<std::size_t> relayed = {};
  std::function<std::unique_ptr<Worker>(const OwnExperiment& own, Worker::Ready ready)> make_worker = {};
};

class Node {
 public:
  // The log must outlive it. Throws InputError when another node uses the folder.
  Node(NodeSetup setup, const Log& log);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // Until the run is over, or stop(). Throws InputError when the server refuses this node for good.
  void run();
  // From any thread.
  void stop();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace parley::wire
