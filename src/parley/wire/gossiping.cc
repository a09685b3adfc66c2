// Gossip learning between machines: every method.period seconds a peer sends its model to a random neighbour, which
// merges it with its own by age, and trains.
//
// The merging, the draws and a peer's n-th training are those of the simulation; what comes when is up to the machines,
// so two runs differ. Each peer makes the same number of trainings, and does not send while it trains.
#include <algorithm>
#include <utility>

#include "parley/base/errors.h"
#include "parley/engine/peer/mixing.h"
#include "parley/wire/staying.h"

namespace parley::wire {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

std::size_t trainings_of(const Experiment& experiment) {
  const auto rounds = static_cast<std::size_t>(experiment.settings.run.integer("rounds"));
  const auto visits = static_cast<std::size_t>(experiment.settings.peer.integer("visits"));
  const std::size_t nodes = experiment.network->nodes().size();
  if (visits == 0) return rounds;
  if (rounds * visits % nodes != 0) {
    fail("peer.visits = {}: {} rounds of it cannot be shared equally by {} peers; make it a multiple of that", visits,
         rounds, nodes);
  }
  return rounds * visits / nodes;
}

class Gossiping final : public Staying {
 public:
  Gossiping(const PeerSetup& given, const Log& to);

  grpc::Status Give(grpc::ServerContext* context, grpc::ServerReader<pb::PeerWeights>* stream,
                    pb::PeerReply* reply) override;

 private:
  struct Message {
    std::string from;
    Weights weights;  // their number is the age
  };

  bool advance() override;
  void meanwhile() override;
  std::string receive(const grpc::ServerContext& context, grpc::ServerReader<pb::PeerWeights>& stream);
  std::optional<Message> next_message();
  // Whether anybody took it.
  bool send();
  bool give(std::size_t node, const Bytes& bytes);
  void train_on(const std::optional<Message>& message);

  const std::chrono::duration<double> period_;
  Clock::time_point wake_;  // when it sends next
  std::size_t sent_;
  std::optional<Message> message_;  // the last that came; under Station::mutex
};

Gossiping::Gossiping(const PeerSetup& given, const Log& to)
    : Staying(given, to, trainings_of(*given.experiment), 0ms),
      period_(experiment.settings.method.real("period")),
      sent_(home().sent) {
  Stream phase(experiment.seed(), "gossip phase", 0, setup.self);  // peers do not wake together
  wake_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(period_ * phase.uniform());
}

// --- What others ask ---

std::string Gossiping::receive(const grpc::ServerContext& context, grpc::ServerReader<pb::PeerWeights>& stream) {
  pb::PeerWeights part;
  if (!stream.Read(&part)) return "nothing came";
  const std::string from = part.hello().name();
  if (std::string why = reason_to_refuse(context, part.hello()); !why.empty()) return why;
  try {
    Incoming incoming(*experiment.layout);
    do incoming.add(part);
    while (stream.Read(&part));
    auto weights = incoming.take();
    if (!weights) return "no weights came";
    const std::size_t trainings = parts * experiment.network->nodes().size();
    if (weights->number > trainings) {
      return fmt::format("weights of age {} came, and all peers together train {} times", weights->number, trainings);
    }
    const std::lock_guard lock(mutex);
    message_ = {from, std::move(*weights)};  // the last that comes is kept: the others are older
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

grpc::Status Gossiping::Give(grpc::ServerContext* context, grpc::ServerReader<pb::PeerWeights>* stream,
                             pb::PeerReply* reply) {
  reply->set_refusal(receive(*context, *stream));
  if (!reply->refusal().empty()) audit_refusal(*context, reply->refusal());
  wake();
  return grpc::Status::OK;
}

// --- What this peer asks others ---

bool Gossiping::give(std::size_t node, const Bytes& bytes) {
  pb::PeerReply reply;
  const bool heard = call(node, kLongPatience, [&](auto& stub, auto& context) {
    if (grpc::Status status = look_at(stub, reply); !status.ok() || !reply.refusal().empty()) return status;
    const auto writer = stub.Give(&context, &reply);
    pb::PeerWeights first;
    *first.mutable_hello() = hello();
    first.set_kind(pb::PeerWeights::OFFER);
    send_weights(*writer, first, bytes);
    writer->WritesDone();
    return writer->Finish();
  });
  if (heard && !reply.refusal().empty()) {
    trouble(fmt::format("{} refuses '{}': {}", name_of(node), own_name(), reply.refusal()));
  }
  return heard && reply.refusal().empty();
}

bool Gossiping::send() {
  auto reachable = experiment.network->neighbours(setup.self, 0.0);
  Stream draw(experiment.seed(), "gossip", sent_, setup.self);
  const Bytes bytes = encode({home().age, home().theta}, experiment.layout);
  while (!reachable.empty() && !stopped()) {
    const std::size_t node = reachable[draw.below(reachable.size())];
    if (give(node, bytes)) {
      ++sent_;
      forget_troubles();
      return true;
    }
    std::erase(reachable, node);
  }
  return false;
}

// --- What it does ---

std::optional<Gossiping::Message> Gossiping::next_message() {
  const std::lock_guard lock(mutex);
  return std::exchange(message_, {});
}

void Gossiping::train_on(const std::optional<Message>& message) {
  Home next = home();
  if (message) merge_by_age(next.theta, next.age, {message->weights.values, message->weights.number});
  const Trained trained = train(next.done + 1, next.theta);
  if (!trained.after.empty()) {
    next.theta = trained.after;
    ++next.age;
  }
  ++next.done;
  next.sent = sent_;
  keep(std::move(next));
  Json line = {{"training", home().done}, {"age", home().age}};
  if (message) line.update({{"from", message->from}, {"their_age", message->weights.number}});
  if (!trained.after.empty()) line["train_loss"] = trained.loss;
  if (const auto share = accuracy(home().theta)) line["accuracy"] = *share;
  note(std::move(line));
}

bool Gossiping::advance() {
  if (const auto message = next_message()) {
    train_on(message);
    return true;
  }
  const auto now = Clock::now();
  if (now < wake_) return !wait(std::chrono::duration_cast<std::chrono::milliseconds>(wake_ - now) + 1ms);
  wake_ = now + std::chrono::duration_cast<Clock::duration>(period_);
  if (!send() && !stopped()) train_on({});  // alone it learns from itself
  return !stopped();
}

// Others may still need what this peer knows.
void Gossiping::meanwhile() {
  if (Clock::now() < wake_) return;
  wake_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(period_);
  send();
}

}  // namespace

std::unique_ptr<Station> make_gossiping(const PeerSetup& setup, const Log& log) {
  return std::make_unique<Gossiping>(setup, log);
}

}  // namespace parley::wire
