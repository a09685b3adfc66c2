#include "parley/wire/station.h"

#include <fmt/format.h>

#include <algorithm>

#include "parley/base/errors.h"
#include "parley/base/files.h"
#include "parley/wire/credentials.h"
#include "parley/wire/protocol.h"
#include "parley/wire/serve.h"

namespace parley::wire {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

void refuse_unfit(const Settings& settings) {
  if (!settings.among_peers) {
    fail("method.name = \"{}\": this method has a server; run it with parley serve and parley join",
         settings.method.text("name"));
  }
  for (const char* key : {"failures", "arrivals"}) {
    if (settings.peer.real(key) > 0.0) {
      fail("peer.{} = {}: real peers die and come by themselves; set 0", key, settings.peer.real(key));
    }
  }
}

const Experiment& fit(const PeerSetup& setup) {
  const Experiment& experiment = *setup.experiment;
  refuse_unfit(experiment.settings);
  if (setup.peers.size() != experiment.clients()) {
    fail("--peers: it names {} peers, and the experiment has {} clients; expected a line for each", setup.peers.size(),
         experiment.clients());
  }
  if (experiment.sizes[setup.self] == 0) {
    fail("'{}' is client {} of the partition, which holds no data; it has nothing to do here",
         setup.peers[setup.self].name, setup.self);
  }
  return experiment;
}

fs::path journal_in(const fs::path& folder) {
  make_folder(journal_of(folder).parent_path());
  return journal_of(folder);
}

}  // namespace

Station::Station(const PeerSetup& given, const Log& to)
    : setup(given),
      log(to),
      experiment(fit(setup)),
      run_name(name_of_run(experiment, setup.peers)),
      journal(journal_in(setup.folder), run_name),
      revoked_(setup.revoked) {}

void Station::listen() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(setup.listen, server_credentials(setup.tls), &port_);
  builder.RegisterService(this);
  builder.SetMaxReceiveMessageSize(kLongestMessage);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  server_ = builder.BuildAndStart();
  if (!server_ || port_ == 0) {
    fail("{}: cannot listen there; is another program using the port, and do the keys fit each other?", setup.listen);
  }
}

void Station::stop() {
  const std::lock_guard lock(mutex);
  stopping = true;
  if (calling_ != nullptr) calling_->TryCancel();
  changed.notify_all();
}

void Station::close() {
  stop();
  if (server_) server_->Shutdown(std::chrono::system_clock::now() + 1s);
}

// --- What others ask ---

void Station::wake() {
  const std::lock_guard lock(mutex);
  arrived_ = true;
  changed.notify_all();
}

void Station::audit(std::string_view event, const std::string& node, std::size_t moves, const std::string& detail) {
  log.say(event, {{"node", node}, {"move", std::to_string(moves)}, {"detail", detail}});
  journal.audit(event, node, moves, detail);
}

void Station::audit_refusal(const grpc::ServerContext& context, const std::string& why) {
  const std::string name = setup.tls ? property(*context.auth_context(), GRPC_X509_CN_PROPERTY_NAME) : "";
  audit("refused", name.substr(0, 64), 0, why);
}

std::string Station::reason_to_refuse(const grpc::ServerContext& context, const pb::PeerHello& hello) {
  const auto who = context.auth_context();
  if (setup.tls) {
    const std::string name = property(*who, GRPC_X509_CN_PROPERTY_NAME);
    if (name != hello.name()) return fmt::format("its certificate is {}'s", name);
    const std::string serial = serial_of(property(*who, GRPC_X509_PEM_CERT_PROPERTY_NAME));
    const std::lock_guard lock(mutex);
    if (revoked_.contains(serial)) return "its certificate was revoked";
  }
  const auto known = [&](const PeerAddress& peer) { return peer.name == hello.name(); };
  if (std::ranges::none_of(setup.peers, known)) return "it is not in the list of peers";
  if (hello.run() != run_name) {
    return "it runs another experiment, or has another list of peers; use the same file and --peers everywhere";
  }
  return "";
}

grpc::Status Station::Greet(grpc::ServerContext* context, const pb::PeerHello* hello, pb::PeerReply* reply) {
  reply->set_refusal(reason_to_refuse(*context, *hello));
  if (!reply->refusal().empty()) {
    audit("refused", hello->name().substr(0, 64), 0, reply->refusal());
    return grpc::Status::OK;
  }
  greeted(*hello);
  for (const std::size_t moves : progress()) reply->add_moves(moves);
  return grpc::Status::OK;
}

// --- What this peer asks others ---

// A connection of its own for each call: who was dead a moment ago is not waited for, and may be back.
std::unique_ptr<pb::Peers::Stub> Station::dial(std::size_t node) const {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kLongestMessage);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (setup.tls) arguments.SetSslTargetNameOverride(name_of(node));  // whoever is there must be that one
  return pb::Peers::NewStub(
      grpc::CreateCustomChannel(setup.peers[node].address, channel_credentials(setup.tls), arguments));
}

pb::PeerHello Station::hello() {
  pb::PeerHello hello;
  hello.set_name(own_name());
  hello.set_run(run_name);
  return hello;
}

std::optional<pb::PeerReply> Station::greet(std::size_t node, bool must_agree, std::chrono::milliseconds patience) {
  pb::PeerReply reply;
  if (!call(node, patience, [&](auto& stub, auto& context) { return stub.Greet(&context, hello(), &reply); }))
    return {};
  if (reply.refusal().empty()) return reply;
  const std::string why = fmt::format("{} refuses '{}': {}", name_of(node), own_name(), reply.refusal());
  if (must_agree) fail("{}", why);
  trouble(why);
  return {};
}

grpc::Status Station::look_at(pb::Peers::Stub& stub, pb::PeerReply& reply) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  const grpc::Status status = stub.Greet(&context, hello(), &reply);
  if (!status.ok() || !reply.refusal().empty() || !setup.tls) return status;
  const std::string serial = serial_of(property(*context.auth_context(), GRPC_X509_PEM_CERT_PROPERTY_NAME));
  const std::lock_guard lock(mutex);
  if (revoked_.contains(serial)) reply.set_refusal("its certificate was revoked");
  return status;
}

std::optional<std::vector<std::size_t>> Station::await_everyone() {
  log.say("waiting", {{"for", "all peers to be there once"}});
  std::vector<std::size_t> known = progress();
  std::set<std::size_t> missing(experiment.network->nodes().begin(), experiment.network->nodes().end());
  missing.erase(setup.self);
  while (!missing.empty()) {
    for (auto node = missing.begin(); node != missing.end();) {
      const auto reply = greet(*node, true);
      for (std::size_t k = 0; reply && k < known.size() && static_cast<int>(k) < reply->moves_size(); ++k) {
        known[k] = std::max<std::size_t>(known[k], reply->moves(static_cast<int>(k)));
      }
      node = reply ? missing.erase(node) : std::next(node);
    }
    if (std::ranges::any_of(known, [](std::size_t moves) { return moves > 0; })) break;
    if (!missing.empty() && wait(kAgain)) return {};
  }
  forget_troubles();
  return known;
}

void Station::trouble(const std::string& text) {
  if (troubles_.insert(text).second) log.say("trouble", {{"reason", text}});
}

bool Station::wait(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex);
  changed.wait_for(lock, time, [&] { return stopping || arrived_; });
  arrived_ = false;
  return stopping;
}

bool Station::stopped() {
  const std::lock_guard lock(mutex);
  return stopping;
}

}  // namespace parley::wire
