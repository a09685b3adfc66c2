#include "parley/wire/node.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <random>
#include <thread>

#include "parley/base/errors.h"
#include "parley/base/version.h"
#include "parley/store/folder_lock.h"
#include "parley/store/run_folder.h"
#include "parley/wire/compression.h"
#include "parley/wire/credentials.h"
#include "parley/wire/federation.grpc.pb.h"
#include "parley/wire/protocol.h"
#include "parley/wire/tested.h"
#include "parley/wire/trainer.h"

namespace parley::wire {
namespace {

namespace pb = parley::wire::v1;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

constexpr auto kBeat = 5s;
constexpr auto kSilence = 30s;  // the server answers every beat
constexpr auto kConnect = 10s;
constexpr Milliseconds kFirstWait = 100ms, kLongestWait = 10s;

std::shared_ptr<grpc::Channel> dial(const NodeSetup& setup) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kLongestMessage);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 15'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 15'000);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own, also beside other nodes
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(setup.server, channel_credentials(setup.tls), arguments);
}

// Twice as long after every failure, and never the same for two nodes, so that they do not come back as a herd.
class BackOff {
 public:
  Milliseconds next() {
    std::uniform_real_distribution<double> share(0.5, 1.0);
    const auto wait = Milliseconds(static_cast<long>(share(random_) * static_cast<double>(longest_.count())));
    longest_ = std::min(2 * longest_, kLongestWait);
    return wait;
  }
  void reset() { longest_ = kFirstWait; }

 private:
  Milliseconds longest_ = kFirstWait;
  std::mt19937 random_{std::random_device{}()};
};

Affine affine_of(const pb::Affine& affine) {
  return {{affine.scale().begin(), affine.scale().end()}, {affine.shift().begin(), affine.shift().end()}};
}

void add_moments(google::protobuf::RepeatedPtrField<pb::Moments>& to, const std::vector<Moments>& moments) {
  for (const auto& m : moments) {
    pb::Moments& added = *to.Add();
    added.set_mean(m.mean);
    added.set_variance(m.variance);
  }
}

enum class Ending { finished, lost };

}  // namespace

// One connection at a time; the trainer outlives them.
struct Node::Parts {
  NodeSetup setup;
  const Log& log;
  FolderLock lock;

  // A write may block for as long as the server does not read, so that it has a lock of its own.
  std::mutex write_mutex;
  grpc::ClientReaderWriter<pb::ToServer, pb::ToNode>* stream = nullptr;  // of the connection in use
  std::optional<std::size_t> asked_round;                                // on that connection: the last round
  std::shared_ptr<const Outcome> offered;                                // on that connection; waits for Take
  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false;
  grpc::ClientContext* context = nullptr;  // of the connection in use
  std::atomic<Clock::rep> heard{0};

  ServerTerms agreed;
  std::vector<std::size_t> sizes;
  std::unique_ptr<Worker> worker;
  std::optional<OwnExperiment> own;
  std::size_t longest = 0;  // broadcast
  std::optional<std::pair<Question, Assembly>> incoming;
  bool packs = false;  // chunks are packed on this connection, both ways

  Parts(NodeSetup given, const Log& to) : setup(std::move(given)), log(to), lock(setup.folder) {}

  bool send(const pb::ToServer& message) {
    const std::lock_guard guard(write_mutex);
    return stream != nullptr && stream->Write(message);
  }

  Ending converse();
  bool connect(grpc::Channel& channel);
  using Talk = grpc::ClientReaderWriter<pb::ToServer, pb::ToNode>;
  bool listen(Talk& talk, Ending& ending);
  bool vector_part(const pb::ToNode& message);
  void join(const pb::Terms& terms);
  void start(const pb::Welcome& welcome);
  void invited(const pb::Invitation& invitation);
  void chunk(const pb::Chunk& chunk);
  void offer(const std::shared_ptr<const Outcome>& outcome);
  void deliver(std::size_t round);
  void keep_alive(const std::stop_token& end);
  std::string run_name() const { return agreement_of(*own->experiment).settings; }
};

Node::Node(NodeSetup setup, const Log& log) {
  make_folder(setup.folder);
  parts_ = std::make_unique<Parts>(std::move(setup), log);
}

Node::~Node() = default;

void Node::stop() {
  const std::lock_guard guard(parts_->mutex);
  parts_->stopping = true;
  if (parts_->context != nullptr) parts_->context->TryCancel();
  parts_->changed.notify_all();
}

void Node::run() {
  BackOff back_off;
  while (true) {
    const auto began = Clock::now();
    if (parts_->converse() == Ending::finished) return;
    if (Clock::now() - began > kLongestWait) back_off.reset();
    const Milliseconds wait = back_off.next();
    std::unique_lock guard(parts_->mutex);
    if (parts_->stopping) return;
    parts_->log.say("back in", {{"node", parts_->setup.name}, {"milliseconds", std::to_string(wait.count())}});
    if (parts_->changed.wait_for(guard, wait, [&] { return parts_->stopping; })) return;
  }
}

// In steps, so that stop() need not wait for all of it.
bool Node::Parts::connect(grpc::Channel& channel) {
  const auto until = Clock::now() + kConnect;
  while (Clock::now() < until) {
    if (channel.WaitForConnected(std::chrono::system_clock::now() + 250ms)) return true;
    const std::lock_guard guard(mutex);
    if (stopping) return false;
  }
  return false;
}

// A whole connection, from dialling to its end.
Ending Node::Parts::converse() {
  const auto channel = dial(setup);
  if (!connect(*channel)) {
    log.say("no connection", {{"node", setup.name}, {"server", setup.server}});
    return Ending::lost;
  }
  const auto stub = pb::Federation::NewStub(channel);
  grpc::ClientContext call;
  const auto talk = stub->Join(&call);
  {
    const std::scoped_lock guard(write_mutex, mutex);
    if (stopping) call.TryCancel();
    context = &call;
    stream = talk.get();
    asked_round.reset();
    offered.reset();
  }
  incoming.reset();
  heard = Clock::now().time_since_epoch().count();
  Ending ending = Ending::lost;
  {
    const std::jthread pulse([this](const std::stop_token& end) { keep_alive(end); });
    pb::ToServer hello;
    hello.mutable_hello()->set_protocol(kProtocol);
    hello.mutable_hello()->set_program(kVersion);
    hello.mutable_hello()->set_name(setup.name);
    hello.mutable_hello()->add_compressions(kZstd);
    std::exception_ptr failed;
    try {
      if (send(hello)) {
        while (listen(*talk, ending)) {
        }
      }
    } catch (...) {
      failed = std::current_exception();
    }
    call.TryCancel();
    const std::scoped_lock guard(write_mutex, mutex);
    stream = nullptr;
    context = nullptr;
    changed.notify_all();
    if (failed) std::rethrow_exception(failed);
  }
  const grpc::Status status = talk->Finish();
  if (ending == Ending::lost) log.say("lost", {{"node", setup.name}, {"reason", status.error_message()}});
  return ending;
}

// One message. False at the end.
bool Node::Parts::listen(Talk& talk, Ending& ending) {
  pb::ToNode message;
  if (!talk.Read(&message)) return false;
  heard = Clock::now().time_since_epoch().count();
  switch (message.what_case()) {
    case pb::ToNode::kTerms: join(message.terms()); return true;
    case pb::ToNode::kWelcome: start(message.welcome()); return true;
    case pb::ToNode::kInvitation:
    case pb::ToNode::kChunk: return vector_part(message);
    case pb::ToNode::kTake: deliver(message.take().round()); return true;
    case pb::ToNode::kVerdict:
      log.say(message.verdict().accepted() ? "accepted" : "answer refused",
              {{"node", setup.name},
               {"round", std::to_string(message.verdict().round())},
               {"reason", message.verdict().reason()}});
      return true;
    case pb::ToNode::kRefusal:
      if (message.refusal().final()) fail("{} refuses '{}': {}", setup.server, setup.name, message.refusal().reason());
      log.say("refused", {{"node", setup.name}, {"reason", message.refusal().reason()}});
      return false;
    case pb::ToNode::kGoodbye:
      log.say("goodbye", {{"node", setup.name}, {"reason", message.goodbye().reason()}});
      if (message.goodbye().finished()) ending = Ending::finished;
      return false;
    default: return true;  // a beat
  }
}

// A broadcast that does not fit is the connection's fault, or a server's that is not ours; a new one may do better.
bool Node::Parts::vector_part(const pb::ToNode& message) {
  try {
    if (message.has_invitation()) {
      invited(message.invitation());
    } else {
      chunk(message.chunk());
    }
    return true;
  } catch (const Error& error) {
    log.say("unusable broadcast", {{"node", setup.name}, {"reason", error.what()}});
    return false;
  }
}

void Node::Parts::join(const pb::Terms& terms) {
  packs = terms.compression() == kZstd;
  const ServerTerms said{.config = terms.config(),
                         .rows = terms.rows(),
                         .measure_inputs = terms.measure_inputs(),
                         .measure_targets = terms.measure_targets()};
  if (!own || said != agreed) {
    worker.reset();
    sizes.clear();
    agreed = said;
    try {
      own = setup.prepare(agreed, {});
    } catch (const InputError& error) {
      pb::ToServer decline;
      decline.mutable_decline()->set_reason(error.what());
      send(decline);
      throw;
    }
  }
  const Federated& federated = own->experiment->federated;
  const Agreement agreement = agreement_of(*own->experiment);
  pb::ToServer answer;
  pb::Facts& facts = *answer.mutable_facts();
  facts.set_client(agreed.rows ? own->row : 0);
  facts.set_examples(federated.partition.clients[own->row].size());
  if (!setup.relayed.empty()) {
    facts.mutable_relayed()->Add(setup.relayed.begin(), setup.relayed.end());
    facts.set_examples(
        std::accumulate(setup.relayed.begin(), setup.relayed.end(), std::size_t{0},
                        [&](std::size_t sum, std::size_t client) { return sum + own->experiment->sizes[client]; }));
  }
  facts.set_layout(agreement.layout);
  facts.set_initial(agreement.initial);
  facts.set_settings(agreement.settings);
  facts.set_task(agreement.task);
  facts.mutable_classes()->Add(agreement.classes.begin(), agreement.classes.end());
  facts.mutable_columns()->Add(agreement.columns.begin(), agreement.columns.end());
  if (agreed.measure_inputs) add_moments(*facts.mutable_inputs(), input_moments(*federated.data.train));
  if (agreed.measure_targets) add_moments(*facts.mutable_targets(), target_moments(*federated.data.train));
  send(answer);
}

void Node::Parts::start(const pb::Welcome& welcome) {
  if (!own) fail("the server welcomes before it has said to what; use the same version of parley at both ends");
  std::vector<std::size_t> all(welcome.sizes().begin(), welcome.sizes().end());
  log.say("welcome", {{"node", setup.name}, {"client", std::to_string(welcome.client())}});
  if (worker && all == sizes) return;
  sizes = std::move(all);
  worker.reset();
  if (!agreed.rows) {
    own = setup.prepare(agreed, {sizes, {affine_of(welcome.inputs()), affine_of(welcome.targets())}});
  }
  longest = longest_broadcast(*own->experiment);
  const auto ready = [this](const auto& outcome) { offer(outcome); };
  worker = setup.make_worker ? setup.make_worker(*own, ready)
                             : std::make_unique<Trainer>(*own, setup.folder / "records", run_name(), ready);
}

void Node::Parts::invited(const pb::Invitation& invitation) {
  if (!worker) fail("the server invites before it has welcomed; use the same version of parley at both ends");
  if (invitation.length() == 0 || invitation.length() > longest) {
    fail<RunError>("the server announced a broadcast of {} bytes; this model's has at most {}", invitation.length(),
                   longest);
  }
  incoming.emplace(Question{.round = invitation.round(),
                            .client = invitation.client(),
                            .cohort = invitation.cohort(),
                            .seed = invitation.seed(),
                            .last_accepted = invitation.last_accepted(),
                            .steps = invitation.steps(),
                            .test = invitation.test(),
                            .test_own = invitation.test_own(),
                            .broadcast = {}},
                   Assembly(invitation.length()));
  for (const auto& asked : invitation.relayed()) {
    incoming->first.relayed.push_back({asked.client(), asked.last_accepted()});
  }
}

void Node::Parts::chunk(const pb::Chunk& chunk) {
  if (!incoming || chunk.round() != incoming->first.round) return;
  auto& [question, assembly] = *incoming;
  std::string unpacked;
  assembly.add(chunk.offset(), plain_bytes(chunk, packs, unpacked));
  if (!assembly.complete()) return;
  question.broadcast = assembly.take();
  Question complete = std::move(question);
  incoming.reset();
  log.say("invited", {{"node", setup.name}, {"round", std::to_string(complete.round)}});
  {
    const std::lock_guard guard(write_mutex);
    asked_round = complete.round;
  }
  worker->ask(std::move(complete));
}

// On the trainer's thread, or on the listener's when the answer was there already.
void Node::Parts::offer(const std::shared_ptr<const Outcome>& outcome) {
  pb::ToServer message;
  if (outcome->refusal.empty() && outcome->test) {
    message.mutable_tested()->set_round(outcome->round);
    if (outcome->tested) fill(*message.mutable_tested(), *outcome->tested);
  } else if (outcome->refusal.empty()) {
    if (outcome->tested) fill(*message.mutable_offer()->mutable_own(), *outcome->tested);
    message.mutable_offer()->set_round(outcome->round);
    message.mutable_offer()->set_length(outcome->update.size());
    message.mutable_offer()->set_epochs(outcome->epochs);
    message.mutable_offer()->set_seconds(outcome->seconds);
    message.mutable_offer()->set_forgot(outcome->forgot);
    if (outcome->forgot) {
      log.say("forgot", {{"node", setup.name},
                         {"folder", setup.folder.string()},
                         {"reason", "what this client remembered is gone; it goes on as one that never took part"}});
    }
  } else {
    message.mutable_decline()->set_round(outcome->round);
    message.mutable_decline()->set_reason(outcome->refusal);
    log.say("no answer", {{"node", setup.name}, {"reason", outcome->refusal}});
  }
  const std::lock_guard guard(write_mutex);
  // On a new connection the server will ask again; before that, an offer would be out of order.
  if (stream == nullptr || asked_round != outcome->round || offered == outcome) return;
  offered = outcome;
  stream->Write(message);
}

void Node::Parts::deliver(std::size_t round) {
  std::shared_ptr<const Outcome> outcome;
  {
    const std::lock_guard guard(write_mutex);
    outcome = offered;
  }
  if (!outcome || outcome->round != round) return;
  const std::string_view plain(reinterpret_cast<const char*>(outcome->update.data()), outcome->update.size());
  for (std::size_t at = 0; at < plain.size(); at += kChunk) {
    pb::ToServer message;
    fill(*message.mutable_chunk(), round, at, plain.substr(at, kChunk), packs);
    if (!send(message)) return;
  }
}

// Beats, and ends a connection on which the server has been silent for too long.
void Node::Parts::keep_alive(const std::stop_token& end) {
  pb::ToServer beat;
  beat.mutable_beat();
  auto due = Clock::now() + kBeat;
  while (true) {
    {
      std::unique_lock guard(mutex);
      changed.wait_until(guard, due, [&] { return end.stop_requested() || context == nullptr; });
      if (end.stop_requested() || context == nullptr) return;
      if (Clock::now().time_since_epoch().count() - heard > Clock::duration(kSilence).count()) {
        context->TryCancel();
        return;
      }
    }
    if (Clock::now() < due) continue;
    due = Clock::now() + kBeat;
    send(beat);
  }
}

}  // namespace parley::wire
