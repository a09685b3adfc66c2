// Models that travel: a peer holds those that come, trains them with the data that it has, and hands them on.
#include <fmt/format.h>

#include <algorithm>

#include "parley/base/errors.h"
#include "parley/base/files.h"
#include "parley/wire/protocol.h"
#include "parley/wire/shelf.h"
#include "parley/wire/station.h"

namespace parley::wire {
namespace {

// Somebody who does not answer.
struct Unreachable {
  std::size_t node;
};

class Visiting final : public Station {
 public:
  Visiting(const PeerSetup& given, const Log& to)
      : Station(given, to),
        hosting(experiment, 1),
        side(experiment.client_setup(hosting.schema())),
        shelf(setup.folder / "models", run_name, experiment, hosting),
        present(hosting.says_present(setup.self)) {}
  bool run() override;

  // --- What others ask ---
  grpc::Status Ask(grpc::ServerContext* context, const pb::PeerQuestion* question, pb::PeerPromise* promise) override;
  grpc::Status HandOver(grpc::ServerContext* context, grpc::ServerReader<pb::PeerPart>* parts,
                        pb::PeerReply* reply) override;
  grpc::Status Commit(grpc::ServerContext* context, const pb::PeerCommit* commit, pb::PeerReply* reply) override;

 private:
  std::vector<std::size_t> progress() override;
  Receipt receive(const grpc::ServerContext& context, grpc::ServerReader<pb::PeerPart>& parts);

  // --- What this peer asks others ---
  double ask(std::size_t node, const std::vector<double>& belief);
  std::optional<pb::PeerReply> hand_over(std::size_t node, std::size_t model, std::size_t moves, bool final);

  // --- What it does ---
  bool begin();
  void drop_what_is_behind();
  bool work();
  void host(std::size_t model);
  bool send(std::size_t model);
  bool confirm(std::size_t model);
  bool announce(std::size_t model);
  void write_model() const;

  Hosting hosting;
  ClientSide side;
  Shelf shelf;
  const std::vector<bool> present;
  std::set<std::size_t> told;  // who has heard of the end
};

// --- What others ask ---

// The last move that is known of each model.
std::vector<std::size_t> Visiting::progress() {
  std::vector<std::size_t> moves;
  for (std::size_t model = 0; model < shelf.size(); ++model) moves.push_back(shelf.at(model).moves);
  return moves;
}

grpc::Status Visiting::Ask(grpc::ServerContext* context, const pb::PeerQuestion* question, pb::PeerPromise* promise) {
  promise->set_refusal(reason_to_refuse(*context, question->hello()));
  const std::vector<double> belief(question->belief().begin(), question->belief().end());
  if (promise->refusal().empty() && belief.size() != present.size())
    promise->set_refusal("its belief has other classes");
  if (promise->refusal().empty()) promise->set_benefit(benefit(belief, present));
  return grpc::Status::OK;
}

Receipt Visiting::receive(const grpc::ServerContext& context, grpc::ServerReader<pb::PeerPart>& parts) {
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

grpc::Status Visiting::HandOver(grpc::ServerContext* context, grpc::ServerReader<pb::PeerPart>* parts,
                                pb::PeerReply* reply) {
  const Receipt receipt = receive(*context, *parts);
  reply->set_refusal(receipt.refusal);
  reply->set_stale(receipt.stale);
  if (!receipt.refusal.empty()) {
    audit_refusal(*context, receipt.refusal);
  }
  wake();
  return grpc::Status::OK;
}

grpc::Status Visiting::Commit(grpc::ServerContext* context, const pb::PeerCommit* commit, pb::PeerReply* reply) {
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

double Visiting::ask(std::size_t node, const std::vector<double>& belief) {
  pb::PeerQuestion question;
  *question.mutable_hello() = hello();
  question.mutable_belief()->Add(belief.begin(), belief.end());
  pb::PeerPromise promise;
  if (!call(node, kPatience, [&](auto& stub, auto& context) { return stub.Ask(&context, question, &promise); })) {
    throw Unreachable{node};
  }
  if (!promise.refusal().empty()) {
    trouble(fmt::format("{} refuses '{}': {}", name_of(node), own_name(), promise.refusal()));
    throw Unreachable{node};
  }
  return promise.benefit();
}

std::optional<pb::PeerReply> Visiting::hand_over(std::size_t node, std::size_t model, std::size_t moves, bool final) {
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
    audit("not taken", name_of(node), moves, fmt::format("model {}: {}", model, reply.refusal()));
  }
  return reply;
}

// --- What it does ---

// The models that start here. False when it is to stop.
bool Visiting::begin() {
  const auto hosts = hosting.first_hosts();
  std::vector<std::size_t> mine;
  for (std::size_t model = 0; model < hosts.size(); ++model) {
    if (hosts[model] == setup.self && shelf.at(model).standing == Standing::absent) mine.push_back(model);
  }
  if (mine.empty()) return true;
  const auto known = await_everyone();
  if (!known) return false;
  for (const std::size_t model : mine) {
    if ((*known)[model] > 0) {
      fail("{}: model {} set out from here and has made {} moves, but this folder knows nothing of it; restore it",
           setup.folder.string(), model, (*known)[model]);
    }
    shelf.hold(model, hosting.new_traveller(model, setup.self));
  }
  return true;
}

// A folder that was restored from an old copy may hold a model that has long gone on.
void Visiting::drop_what_is_behind() {
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
      audit("stale", name_of(node), entry.moves,
            fmt::format("model {} is at move {} elsewhere; what this folder held of it is dropped", model, known));
    }
  }
}

void Visiting::host(std::size_t model) {
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
bool Visiting::send(std::size_t model) {
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
      audit("passed over", name_of(dead.node), traveller.moves, fmt::format("model {}", model));
      continue;
    }
    forget_troubles();
    return shelf.promise(model, name_of(next)) && confirm(model);
  }
  return false;
}

// That what was promised is now the other's.
bool Visiting::confirm(std::size_t model) {
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
bool Visiting::announce(std::size_t model) {
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
bool Visiting::work() {
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

void Visiting::write_model() const {
  std::vector<Traveller> travellers;
  for (std::size_t model = 0; model < shelf.size(); ++model) travellers.push_back(shelf.load(model, setup.self));
  ensemble(travellers, experiment.layout).write(real_files(), setup.folder / "model.safetensors");
}

bool Visiting::run() {
  const bool finished_before = shelf.all_final();
  audit("started", own_name(), 0, setup.listen);
  drop_what_is_behind();
  if (!begin()) return false;
  while (!shelf.all_final()) {
    if (stopped() || (!work() && wait(kAgain))) return false;
  }
  write_model();
  const auto until = std::chrono::steady_clock::now() + setup.farewell;
  while (true) {
    bool all = true;
    for (std::size_t model = 0; model < shelf.size(); ++model) {
      const bool ours = finished_before || shelf.at(model).peer == own_name();
      if (ours && !announce(model)) all = false;
    }
    if (all || std::chrono::steady_clock::now() > until || wait(kAgain)) return true;
  }
}

}  // namespace

std::unique_ptr<Station> make_visiting(const PeerSetup& setup, const Log& log) {
  return std::make_unique<Visiting>(setup, log);
}

}  // namespace parley::wire
