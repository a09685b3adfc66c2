#include "parley/wire/peer.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <set>
#include <sstream>

#include "parley/base/errors.h"
#include "parley/base/files.h"
#include "parley/base/fingerprint.h"
#include "parley/wire/credentials.h"
#include "parley/wire/journal.h"
#include "parley/wire/keys.h"
#include "parley/wire/peer.grpc.pb.h"
#include "parley/wire/protocol.h"
#include "parley/wire/serve.h"
#include "parley/wire/shelf.h"

namespace parley::wire {
namespace {

namespace pb = parley::wire::v1;
namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kPatience = 15s;       // for a short answer; who has none by then is passed over
constexpr auto kLongPatience = 600s;  // for a whole model
constexpr auto kAgain = 500ms;        // before the same is tried again

void refuse_unfit(const Settings& settings) {
  const std::string& name = settings.method.text("name");
  if (!settings.among_peers) {
    fail("method.name = \"{}\": this method has a server; run it with parley serve and parley join", name);
  }
  if (name == "gossip" || name == "dpsgd") {
    fail("method.name = \"{}\": parley peer carries models that travel (mm, smm, cyclic); run it with parley run",
         name);
  }
  for (const char* key : {"failures", "arrivals"}) {
    if (settings.peer.real(key) > 0.0) {
      fail("peer.{} = {}: real peers die and come by themselves; set 0", key, settings.peer.real(key));
    }
  }
}

// What must be the same at all peers.
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

// Somebody who does not answer.
struct Unreachable {
  std::size_t node;
};

}  // namespace

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

struct Peer::Parts final : pb::Peers::Service {
  PeerSetup setup;
  const Log& log;
  const Experiment& experiment;
  const std::string run_name;
  Hosting hosting;
  ClientSide side;
  Shelf shelf;
  Journal journal;
  RevocationList revoked;
  const std::vector<bool> present;
  std::set<std::size_t> told;      // who has heard of the end
  std::set<std::string> troubles;  // that were logged, so that what goes on is said once

  std::mutex mutex;  // of what follows, and of the revocation list
  std::condition_variable changed;
  bool stopping = false, arrived = false;
  grpc::ClientContext* calling = nullptr;

  int port = 0;
  std::unique_ptr<grpc::Server> server;  // last: it calls into the others

  Parts(PeerSetup given, const Log& to);
  const std::string& own_name() const { return setup.peers[setup.self].name; }

  // --- What others ask ---
  grpc::Status Greet(grpc::ServerContext* context, const pb::PeerHello* hello, pb::PeerReply* reply) override;
  grpc::Status Ask(grpc::ServerContext* context, const pb::PeerQuestion* question, pb::PeerPromise* promise) override;
  grpc::Status HandOver(grpc::ServerContext* context, grpc::ServerReader<pb::PeerPart>* parts,
                        pb::PeerReply* reply) override;
  grpc::Status Commit(grpc::ServerContext* context, const pb::PeerCommit* commit, pb::PeerReply* reply) override;
  std::string reason_to_refuse(const grpc::ServerContext& context, const pb::PeerHello& hello);
  Receipt receive(const grpc::ServerContext& context, grpc::ServerReader<pb::PeerPart>& parts);
  void audit(std::string_view event, const std::string& node, std::size_t moves, const std::string& detail);

  // --- What this peer asks others ---
  std::unique_ptr<pb::Peers::Stub> dial(std::size_t node) const;
  template <class Call>
  bool call(std::size_t node, std::chrono::milliseconds patience, const Call& make);
  pb::PeerHello hello() const;
  std::optional<pb::PeerReply> greet(std::size_t node, bool must_agree);
  grpc::Status look_at(pb::Peers::Stub& stub, pb::PeerReply& reply);
  double ask(std::size_t node, const std::vector<double>& belief);
  std::optional<pb::PeerReply> hand_over(std::size_t node, std::size_t model, std::size_t moves, bool final);

  // --- What it does ---
  bool begin();
  bool await_everyone(std::vector<std::size_t>& known);
  void drop_what_is_behind();
  bool work();
  void host(std::size_t model);
  bool send(std::size_t model);
  bool confirm(std::size_t model);
  bool announce(std::size_t model);
  void write_model() const;
  void trouble(const std::string& text);
  bool wait(std::chrono::milliseconds time);
  void wake();
  bool stopped() {
    const std::lock_guard lock(mutex);
    return stopping;
  }
};

namespace {

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

Peer::Parts::Parts(PeerSetup given, const Log& to)
    : setup(std::move(given)),
      log(to),
      experiment(fit(setup)),
      run_name(name_of_run(experiment, setup.peers)),
      hosting(experiment, 1),
      side(experiment.client_setup(hosting.schema())),
      shelf(setup.folder / "models", run_name, experiment, hosting),
      journal(journal_in(setup.folder), run_name),
      revoked(setup.revoked),
      present(hosting.says_present(setup.self)) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(setup.listen, server_credentials(setup.tls), &port);
  builder.RegisterService(this);
  builder.SetMaxReceiveMessageSize(kLongestMessage);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  server = builder.BuildAndStart();
  if (!server || port == 0) {
    fail("{}: cannot listen there; is another program using the port, and do the keys fit each other?", setup.listen);
  }
}

Peer::Peer(PeerSetup setup, const Log& log) : parts_(std::make_unique<Parts>(std::move(setup), log)) {}

Peer::~Peer() {
  if (parts_ && parts_->server) parts_->server->Shutdown(std::chrono::system_clock::now() + 1s);
}

int Peer::port() const {
  return parts_->port;
}

void Peer::stop() {
  const std::lock_guard lock(parts_->mutex);
  parts_->stopping = true;
  if (parts_->calling != nullptr) parts_->calling->TryCancel();
  parts_->changed.notify_all();
}

// --- What others ask ---

// Whoever wait()s: something came.
void Peer::Parts::wake() {
  const std::lock_guard lock(mutex);
  arrived = true;
  changed.notify_all();
}

void Peer::Parts::audit(std::string_view event, const std::string& node, std::size_t moves, const std::string& detail) {
  log.say(event, {{"node", node}, {"move", std::to_string(moves)}, {"detail", detail}});
  journal.audit(event, node, moves, detail);
}

std::string Peer::Parts::reason_to_refuse(const grpc::ServerContext& context, const pb::PeerHello& hello) {
  const auto who = context.auth_context();
  if (setup.tls) {
    const std::string name = property(*who, GRPC_X509_CN_PROPERTY_NAME);
    if (name != hello.name()) return fmt::format("its certificate is {}'s", name);
    const std::string serial = serial_of(property(*who, GRPC_X509_PEM_CERT_PROPERTY_NAME));
    const std::lock_guard lock(mutex);
    if (revoked.contains(serial)) return "its certificate was revoked";
  }
  const auto known = [&](const PeerAddress& peer) { return peer.name == hello.name(); };
  if (std::ranges::none_of(setup.peers, known)) return "it is not in the list of peers";
  if (hello.run() != run_name) {
    return "it runs another experiment, or has another list of peers; use the same file and --peers everywhere";
  }
  return "";
}

grpc::Status Peer::Parts::Greet(grpc::ServerContext* context, const pb::PeerHello* hello, pb::PeerReply* reply) {
  reply->set_refusal(reason_to_refuse(*context, *hello));
  if (!reply->refusal().empty()) {
    audit("refused", hello->name().substr(0, 64), 0, reply->refusal());
    return grpc::Status::OK;
  }
  for (std::size_t model = 0; model < shelf.size(); ++model) reply->add_moves(shelf.at(model).moves);
  return grpc::Status::OK;
}

grpc::Status Peer::Parts::Ask(grpc::ServerContext* context, const pb::PeerQuestion* question,
                              pb::PeerPromise* promise) {
  promise->set_refusal(reason_to_refuse(*context, question->hello()));
  const std::vector<double> belief(question->belief().begin(), question->belief().end());
  if (promise->refusal().empty() && belief.size() != present.size())
    promise->set_refusal("its belief has other classes");
  if (promise->refusal().empty()) promise->set_benefit(benefit(belief, present));
  return grpc::Status::OK;
}

Receipt Peer::Parts::receive(const grpc::ServerContext& context, grpc::ServerReader<pb::PeerPart>& parts) {
  pb::PeerPart part;
  if (!parts.Read(&part) || !part.has_parcel()) return {.refusal = "a model must be announced before it is sent"};
  const pb::PeerParcel parcel = part.parcel();
  const std::string& from = parcel.hello().name();
  if (std::string why = reason_to_refuse(context, parcel.hello()); !why.empty()) return {.refusal = why};
  if (Receipt judged = shelf.would_take(parcel.model(), parcel.moves(), parcel.length(), from, parcel.final());
      !judged.refusal.empty()) {
    return judged;
  }
  std::string bytes;
  while (parts.Read(&part)) {
    bytes += part.chunk();
    if (bytes.size() > parcel.length()) return {.refusal = "more bytes came than were announced"};
  }
  if (bytes.size() != parcel.length()) return {.refusal = "it was cut off"};
  Receipt receipt = shelf.take_in(parcel.model(), parcel.moves(), from, parcel.final(), bytes);
  if (receipt.refusal.empty()) {
    audit(parcel.final() ? "finished" : "came", from, parcel.moves(), fmt::format("model {}", parcel.model()));
  }
  return receipt;
}

grpc::Status Peer::Parts::HandOver(grpc::ServerContext* context, grpc::ServerReader<pb::PeerPart>* parts,
                                   pb::PeerReply* reply) {
  const Receipt receipt = receive(*context, *parts);
  reply->set_refusal(receipt.refusal);
  reply->set_stale(receipt.stale);
  if (!receipt.refusal.empty()) {
    const std::string name = setup.tls ? property(*context->auth_context(), GRPC_X509_CN_PROPERTY_NAME) : "";
    audit("refused", name.substr(0, 64), 0, receipt.refusal);
  }
  wake();
  return grpc::Status::OK;
}

grpc::Status Peer::Parts::Commit(grpc::ServerContext* context, const pb::PeerCommit* commit, pb::PeerReply* reply) {
  std::string why = reason_to_refuse(*context, commit->hello());
  const Receipt receipt = why.empty() ? shelf.commit(commit->model(), commit->moves(), commit->hello().name())
                                      : Receipt{.refusal = std::move(why)};
  reply->set_refusal(receipt.refusal);
  reply->set_missing(receipt.missing);
  if (!receipt.refusal.empty())
    audit("refused", commit->hello().name().substr(0, 64), commit->moves(), receipt.refusal);
  wake();
  return grpc::Status::OK;
}

// --- What this peer asks others ---

// A connection of its own for each call: who was dead a moment ago is not waited for, and may be back.
std::unique_ptr<pb::Peers::Stub> Peer::Parts::dial(std::size_t node) const {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kLongestMessage);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (setup.tls) arguments.SetSslTargetNameOverride(setup.peers[node].name);  // whoever is there must be that one
  return pb::Peers::NewStub(
      grpc::CreateCustomChannel(setup.peers[node].address, channel_credentials(setup.tls), arguments));
}

// Whether there was an answer.
template <class Call>
bool Peer::Parts::call(std::size_t node, std::chrono::milliseconds patience, const Call& make) {
  const auto stub = dial(node);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + patience);
  {
    const std::lock_guard lock(mutex);
    if (stopping) return false;
    calling = &context;
  }
  const grpc::Status status = make(*stub, context);
  {
    const std::lock_guard lock(mutex);
    calling = nullptr;
  }
  if (!status.ok()) trouble(fmt::format("{} cannot be reached: {}", setup.peers[node].name, status.error_message()));
  return status.ok();
}

pb::PeerHello Peer::Parts::hello() const {
  pb::PeerHello hello;
  hello.set_name(own_name());
  hello.set_run(run_name);
  return hello;
}

std::optional<pb::PeerReply> Peer::Parts::greet(std::size_t node, bool must_agree) {
  pb::PeerReply reply;
  if (!call(node, kPatience, [&](auto& stub, auto& context) { return stub.Greet(&context, hello(), &reply); }))
    return {};
  if (reply.refusal().empty()) return reply;
  const std::string why = fmt::format("{} refuses '{}': {}", setup.peers[node].name, own_name(), reply.refusal());
  if (must_agree) fail("{}", why);
  trouble(why);
  return {};
}

double Peer::Parts::ask(std::size_t node, const std::vector<double>& belief) {
  pb::PeerQuestion question;
  *question.mutable_hello() = hello();
  question.mutable_belief()->Add(belief.begin(), belief.end());
  pb::PeerPromise promise;
  if (!call(node, kPatience, [&](auto& stub, auto& context) { return stub.Ask(&context, question, &promise); })) {
    throw Unreachable{node};
  }
  if (!promise.refusal().empty()) {
    trouble(fmt::format("{} refuses '{}': {}", setup.peers[node].name, own_name(), promise.refusal()));
    throw Unreachable{node};
  }
  return promise.benefit();
}

// Before it is sent a model: whether it answers, agrees, and has a certificate that counts.
grpc::Status Peer::Parts::look_at(pb::Peers::Stub& stub, pb::PeerReply& reply) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  const grpc::Status status = stub.Greet(&context, hello(), &reply);
  if (!status.ok() || !reply.refusal().empty() || !setup.tls) return status;
  const std::string serial = serial_of(property(*context.auth_context(), GRPC_X509_PEM_CERT_PROPERTY_NAME));
  const std::lock_guard lock(mutex);
  if (revoked.contains(serial)) reply.set_refusal("its certificate was revoked");
  return status;
}

std::optional<pb::PeerReply> Peer::Parts::hand_over(std::size_t node, std::size_t model, std::size_t moves,
                                                    bool final) {
  const std::string bytes = shelf.parcel(model);
  pb::PeerReply reply;
  const bool heard = call(node, kLongPatience, [&](auto& stub, auto& context) {
    if (grpc::Status status = look_at(stub, reply); !status.ok() || !reply.refusal().empty()) return status;
    const auto writer = stub.HandOver(&context, &reply);
    pb::PeerPart part;
    pb::PeerParcel& parcel = *part.mutable_parcel();
    *parcel.mutable_hello() = hello();
    parcel.set_model(model);
    parcel.set_moves(moves);
    parcel.set_length(bytes.size());
    parcel.set_final(final);
    bool open = writer->Write(part);
    part.clear_parcel();
    for (std::size_t at = 0; open && at < bytes.size(); at += kChunk) {
      part.set_chunk(bytes.substr(at, kChunk));
      open = writer->Write(part);
    }
    writer->WritesDone();
    return writer->Finish();
  });
  if (!heard) return {};
  if (!reply.refusal().empty()) {
    audit("not taken", setup.peers[node].name, moves, fmt::format("model {}: {}", model, reply.refusal()));
  }
  return reply;
}

// --- What it does ---

// Once, until something went well.
void Peer::Parts::trouble(const std::string& text) {
  if (troubles.insert(text).second) log.say("trouble", {{"reason", text}});
}

// True when it is to stop.
bool Peer::Parts::wait(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex);
  changed.wait_for(lock, time, [&] { return stopping || arrived; });
  arrived = false;
  return stopping;
}

// All must have been there once before a model sets out, or it would pass over who is only late. `known`: the furthest
// move of each model that anybody knows of. False when it is to stop.
bool Peer::Parts::await_everyone(std::vector<std::size_t>& known) {
  std::set<std::size_t> missing(experiment.network->nodes().begin(), experiment.network->nodes().end());
  missing.erase(setup.self);
  while (!missing.empty()) {
    for (auto node = missing.begin(); node != missing.end();) {
      const auto reply = greet(*node, true);
      for (int k = 0; reply && k < reply->moves_size(); ++k) {
        auto& furthest = known.at(static_cast<std::size_t>(k));
        furthest = std::max<std::size_t>(furthest, reply->moves(k));
      }
      node = reply ? missing.erase(node) : std::next(node);
    }
    if (!missing.empty() && wait(kAgain)) return false;
  }
  troubles.clear();
  return true;
}

// The models that start here. False when it is to stop.
bool Peer::Parts::begin() {
  const auto hosts = hosting.first_hosts();
  std::vector<std::size_t> mine;
  for (std::size_t model = 0; model < hosts.size(); ++model) {
    if (hosts[model] == setup.self && shelf.at(model).standing == Standing::absent) mine.push_back(model);
  }
  if (mine.empty()) return true;
  log.say("waiting", {{"for", "all peers to be there once"}});
  std::vector<std::size_t> known(shelf.size());
  if (!await_everyone(known)) return false;
  for (const std::size_t model : mine) {
    if (known[model] > 0) {
      fail("{}: model {} set out from here and has made {} moves, but this folder knows nothing of it; restore it",
           setup.folder.string(), model, known[model]);
    }
    shelf.hold(model, hosting.new_traveller(model, setup.self));
  }
  return true;
}

// A folder that was restored from an old copy may hold a model that has long gone on.
void Peer::Parts::drop_what_is_behind() {
  std::vector<std::size_t> here;
  for (std::size_t model = 0; model < shelf.size(); ++model) {
    const Standing standing = shelf.at(model).standing;
    if (standing == Standing::held || standing == Standing::leaving) here.push_back(model);
  }
  if (here.empty()) return;
  for (const std::size_t node : experiment.network->nodes()) {
    if (node == setup.self) continue;
    const auto reply = greet(node, false);
    if (!reply) continue;
    for (const std::size_t model : here) {
      const ShelfEntry entry = shelf.at(model);
      const auto known = static_cast<int>(model) < reply->moves_size() ? reply->moves(static_cast<int>(model)) : 0;
      if (known <= entry.moves || !shelf.let_go(model)) continue;
      audit("stale", setup.peers[node].name, entry.moves,
            fmt::format("model {} is at move {} elsewhere; what this folder held of it is dropped", model, known));
    }
  }
}

void Peer::Parts::host(std::size_t model) {
  Traveller traveller = shelf.load(model, setup.self);
  VisitResult visit = hosting.visit(side, traveller);
  Json line = {{"model", model}, {"move", traveller.moves + 1}, {"time", timestamp()}};
  if (visit.refusal.empty()) {
    line.update({{"before", visit.before.accuracy},
                 {"after", visit.after.accuracy},
                 {"train_loss", visit.update.training.loss_sum / static_cast<double>(visit.update.training.examples)}});
  } else {
    line["refused"] = visit.refusal;
  }
  hosting.take_leave(traveller, std::move(visit));
  ++traveller.moves;
  const bool last = traveller.moves == shelf.journey();
  if (!(last ? shelf.finish(model, traveller, own_name()) : shelf.leave(model, traveller))) return;
  real_files().append(setup.folder / "visits.jsonl", line.dump() + "\n");
  log.say("visit",
          {{"model", std::to_string(model)}, {"move", std::to_string(traveller.moves)}, {"line", line.dump()}});
}

// To the next peer. Who cannot be reached is passed over; when nobody can, the model stays for now.
bool Peer::Parts::send(std::size_t model) {
  const Traveller traveller = shelf.load(model, setup.self);
  auto reachable = experiment.network->neighbours(setup.self, 0.0);
  while (!reachable.empty() && !stopped()) {
    std::size_t next = 0;
    try {
      next =
          traveller.choose(reachable, hosting.options(), [&](std::size_t node) { return ask(node, traveller.belief); });
      const auto reply = hand_over(next, model, traveller.moves, false);
      if (reply && reply->stale()) return shelf.let_go(model);
      if (!reply || !reply->refusal().empty()) throw Unreachable{next};
    } catch (const Unreachable& dead) {
      std::erase(reachable, dead.node);
      audit("passed over", setup.peers[dead.node].name, traveller.moves, fmt::format("model {}", model));
      continue;
    }
    troubles.clear();
    return shelf.promise(model, setup.peers[next].name) && confirm(model);
  }
  return false;
}

// That what was promised is now the other's.
bool Peer::Parts::confirm(std::size_t model) {
  const ShelfEntry entry = shelf.at(model);
  const auto to = std::ranges::find(setup.peers, entry.peer, &PeerAddress::name);
  pb::PeerCommit commit;
  *commit.mutable_hello() = hello();
  commit.set_model(model);
  commit.set_moves(entry.moves);
  pb::PeerReply reply;
  if (!call(static_cast<std::size_t>(to - setup.peers.begin()), kPatience,
            [&](auto& stub, auto& context) { return stub.Commit(&context, commit, &reply); })) {
    return false;
  }
  if (reply.missing()) {  // its folder was lost in between
    audit("taken back", entry.peer, entry.moves, fmt::format("model {}: {}", model, reply.refusal()));
    shelf.take_back(model);
    drop_what_is_behind();
    return true;
  }
  if (!reply.refusal().empty()) {
    trouble(fmt::format("{} refuses '{}': {}", entry.peer, own_name(), reply.refusal()));
    return false;
  }
  audit("left", entry.peer, entry.moves, fmt::format("model {}", model));
  return shelf.let_go(model);
}

// Tells everybody how it ended. True when all have heard.
bool Peer::Parts::announce(std::size_t model) {
  bool all = true;
  for (const std::size_t node : experiment.network->nodes()) {
    const std::size_t key = model * experiment.clients() + node;
    if (node == setup.self || told.contains(key)) continue;
    const auto reply = hand_over(node, model, shelf.journey(), true);
    if (reply && reply->refusal().empty()) {
      told.insert(key);
    } else {
      all = false;
    }
  }
  return all;
}

// One thing for each model that is here. Whether anything went on.
bool Peer::Parts::work() {
  bool went_on = false;
  for (std::size_t model = 0; model < shelf.size() && !stopped(); ++model) {
    const ShelfEntry entry = shelf.at(model);
    switch (entry.standing) {
      case Standing::held:
        host(model);
        went_on = true;
        break;
      case Standing::leaving: went_on = send(model) || went_on; break;
      case Standing::promised: went_on = confirm(model) || went_on; break;
      case Standing::final:
        if (entry.peer == own_name()) announce(model);
        break;
      default: break;
    }
  }
  return went_on;
}

void Peer::Parts::write_model() const {
  std::vector<Traveller> travellers;
  for (std::size_t model = 0; model < shelf.size(); ++model) travellers.push_back(shelf.load(model, setup.self));
  ensemble(travellers, experiment.layout).write(real_files(), setup.folder / "model.safetensors");
}

bool Peer::run() {
  Parts& parts = *parts_;
  const bool finished_before = parts.shelf.all_final();
  parts.audit("started", parts.own_name(), 0, parts.setup.listen);
  parts.drop_what_is_behind();
  if (!parts.begin()) return false;
  while (!parts.shelf.all_final()) {
    if (parts.stopped() || (!parts.work() && parts.wait(kAgain))) return false;
  }
  parts.write_model();
  const auto until = std::chrono::steady_clock::now() + parts.setup.farewell;
  while (true) {
    bool all = true;
    for (std::size_t model = 0; model < parts.shelf.size(); ++model) {
      const bool ours = finished_before || parts.shelf.at(model).peer == parts.own_name();
      if (ours && !parts.announce(model)) all = false;
    }
    if (all || std::chrono::steady_clock::now() > until || parts.wait(kAgain)) return true;
  }
}

}  // namespace parley::wire
