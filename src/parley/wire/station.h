// A place in a network of peers: it listens, dials the others, and knows who may talk to it. What they do with each
// other is visiting.cc's (models that travel) and staying.cc's (models that stay at home).
//
// Order:    make, listen(), run(), close().
// Threads:  stop() from any. Calls of other peers come on gRPC's.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "parley/wire/journal.h"
#include "parley/wire/keys.h"
#include "parley/wire/peer.grpc.pb.h"
#include "parley/wire/peer.h"

namespace parley::wire {

namespace pb = parley::wire::v1;

// For a short answer; who has none by then is passed over.
inline constexpr auto kPatience = std::chrono::seconds(15);
inline constexpr auto kLongPatience = std::chrono::seconds(600);  // for a whole model
inline constexpr auto kAgain = std::chrono::milliseconds(500);    // before the same is tried again

class Station : public pb::Peers::Service {
 public:
  Station(const PeerSetup& given, const Log& to);

  // Throws InputError when the address cannot be had.
  void listen();
  int port() const { return port_; }
  virtual bool run() = 0;
  void stop();
  // No call of another peer is under way, or will be.
  void close();

  grpc::Status Greet(grpc::ServerContext* context, const pb::PeerHello* hello, pb::PeerReply* reply) final;

 protected:
  // How far what is here has come; 0 when it has not begun. For those who greet.
  virtual std::vector<std::size_t> progress() = 0;
  // Somebody who may do so has greeted.
  virtual void greeted(const pb::PeerHello&) {}

  const std::string& own_name() const { return setup.peers[setup.self].name; }
  const std::string& name_of(std::size_t node) const { return setup.peers[node].name; }
  virtual pb::PeerHello hello();
  void audit(std::string_view event, const std::string& node, std::size_t moves, const std::string& detail);
  // Says it once, until something went well and forget_troubles() was called.
  void trouble(const std::string& text);
  void forget_troubles() { troubles_.clear(); }

  // --- What others ask ---
  std::string reason_to_refuse(const grpc::ServerContext& context, const pb::PeerHello& hello);
  // Notes a call that was refused under the name that its certificate bears.
  void audit_refusal(const grpc::ServerContext& context, const std::string& why);
  // Whoever wait()s: something came.
  void wake();

  // --- What this peer asks others ---
  // Whether there was an answer.
  template <class Call>
  bool call(std::size_t node, std::chrono::milliseconds patience, const Call& make);
  std::optional<pb::PeerReply> greet(std::size_t node, bool must_agree, std::chrono::milliseconds patience = kPatience);
  // Before weights are sent or taken: whether it answers, agrees, and has a certificate that counts.
  grpc::Status look_at(pb::Peers::Stub& stub, pb::PeerReply& reply);
  // All must have been there once, or who is only late would be passed over; unless the run has begun already. Returns
  // the furthest that anybody has come; nothing when it is to stop.
  std::optional<std::vector<std::size_t>> await_everyone();

  // True when it is to stop.
  bool wait(std::chrono::milliseconds time);
  bool stopped();

  const PeerSetup setup;
  const Log& log;
  const Experiment& experiment;
  const std::string run_name;
  Journal journal;
  std::mutex mutex;  // of what others' calls and this peer's own thread share
  std::condition_variable changed;
  bool stopping = false;

 private:
  std::unique_ptr<pb::Peers::Stub> dial(std::size_t node) const;

  RevocationList revoked_;
  std::set<std::string> troubles_;  // that were logged
  bool arrived_ = false;
  grpc::ClientContext* calling_ = nullptr;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

template <class Call>
bool Station::call(std::size_t node, std::chrono::milliseconds patience, const Call& make) {
  const auto stub = dial(node);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + patience);
  {
    const std::lock_guard lock(mutex);
    if (stopping) return false;
    calling_ = &context;
  }
  const grpc::Status status = make(*stub, context);
  {
    const std::lock_guard lock(mutex);
    calling_ = nullptr;
  }
  if (!status.ok()) trouble(fmt::format("{} cannot be reached: {}", name_of(node), status.error_message()));
  return status.ok();
}

// Models that come and go (mm, smm, cyclic); models that stay (dpsgd, gossip).
std::unique_ptr<Station> make_visiting(const PeerSetup& setup, const Log& log);
std::unique_ptr<Station> make_staying(const PeerSetup& setup, const Log& log);

}  // namespace parley::wire
