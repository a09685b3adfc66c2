#include "parley/wire/staying.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "parley/base/errors.h"
#include "parley/base/files.h"
#include "parley/engine/peer/belief.h"
#include "parley/engine/peer/mixing.h"

namespace parley::wire {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kBriefly = 1s;  // for those who were passed over already

}  // namespace

Staying::Staying(const PeerSetup& given, const Log& to, std::size_t to_do, std::chrono::milliseconds long_poll)
    : Station(given, to),
      parts(to_do),
      nodes_(experiment),
      server_(experiment.server_setup()),
      side_(experiment.client_setup(server_.schema())),
      file_(setup.folder / "models", run_name, *experiment.layout),
      long_poll_(long_poll),
      home_(file_.load().value_or(Home{.theta = experiment.initial})) {
  read_model();
}

// --- What others ask ---

std::vector<std::size_t> Staying::progress() {
  const std::lock_guard lock(mutex);
  return {home_.done + (model_ ? 1 : 0)};
}

void Staying::greeted(const pb::PeerHello& hello) {
  if (!hello.ended()) return;
  const std::lock_guard lock(mutex);
  ended_.insert(hello.name());
  if (model_) told_.insert(hello.name());  // by the answer
}

Staying::Parcel Staying::parcel_for(const pb::PeerFetch& wanted) const {
  const std::size_t present = home_.done + 1;
  const Parcel where_it_is{pb::PeerWeights::START, {present, home_.theta}};
  if (wanted.model()) {
    return model_ ? Parcel{pb::PeerWeights::START, {parts + 1, *model_}} : Parcel{pb::PeerWeights::NONE};
  }
  if (wanted.start()) return present >= wanted.round() ? where_it_is : Parcel{};
  if (wanted.round() > present) return {};
  if (wanted.round() == present) return offer_ ? Parcel{pb::PeerWeights::OFFER, {present, *offer_}} : Parcel{};
  if (wanted.round() + 1 < present) return where_it_is;
  if (home_.offered.empty()) return {pb::PeerWeights::NONE};
  return {pb::PeerWeights::OFFER, {wanted.round(), home_.offered}};
}

Staying::Parcel Staying::await_parcel(const pb::PeerFetch& wanted) {
  std::unique_lock lock(mutex);
  Parcel parcel;
  changed.wait_for(lock, long_poll_, [&] {
    parcel = parcel_for(wanted);
    return stopping || parcel.kind != pb::PeerWeights::PENDING;
  });
  return parcel;
}

grpc::Status Staying::Fetch(grpc::ServerContext* context, const pb::PeerFetch* wanted,
                            grpc::ServerWriter<pb::PeerWeights>* writer) {
  pb::PeerWeights first;
  first.set_refusal(reason_to_refuse(*context, wanted->hello()));
  if (!first.refusal().empty()) {
    audit_refusal(*context, first.refusal());
    writer->Write(first);
    return grpc::Status::OK;
  }
  const Parcel parcel = await_parcel(*wanted);
  first.set_kind(parcel.kind);
  const Bytes bytes = parcel.weights.values.empty() ? Bytes{} : encode(parcel.weights, experiment.layout);
  send_weights(*writer, first, bytes);
  return grpc::Status::OK;
}

// --- What this peer asks others ---

pb::PeerHello Staying::hello() {
  pb::PeerHello hello = Station::hello();
  const std::lock_guard lock(mutex);
  hello.set_ended(model_.has_value());
  return hello;
}

std::optional<Staying::Parcel> Staying::exchange(std::size_t node, const pb::PeerFetch& wanted) {
  Incoming incoming(*experiment.layout);
  pb::PeerReply reply;
  std::string fault;
  const bool heard = call(node, kLongPatience, [&](auto& stub, auto& context) {
    if (grpc::Status status = look_at(stub, reply); !status.ok() || !reply.refusal().empty()) return status;
    const auto reader = stub.Fetch(&context, wanted);
    pb::PeerWeights part;
    try {
      while (reader->Read(&part)) incoming.add(part);
    } catch (const InputError& error) {
      fault = error.what();
      context.TryCancel();
    }
    const grpc::Status status = reader->Finish();
    return fault.empty() ? status : grpc::Status::OK;
  });
  if (!heard) return {};
  if (!reply.refusal().empty()) fail("it refuses '{}': {}", own_name(), reply.refusal());
  if (!fault.empty()) fail("{}", fault);
  auto weights = incoming.take();
  return Parcel{incoming.kind(), weights ? std::move(*weights) : Weights{}};
}

std::optional<Staying::Parcel> Staying::fetch(std::size_t node, const pb::PeerFetch& wanted) {
  if (away_.contains(node) && !greet(node, false, kBriefly)) return {};
  try {
    auto parcel = exchange(node, wanted);
    if (!parcel) return {};
    const std::size_t number = parcel->weights.number;
    const bool as_asked = parcel->kind != pb::PeerWeights::OFFER || number == wanted.round();
    const bool possible = parcel->kind != pb::PeerWeights::START || (number >= wanted.round() && number <= parts + 1);
    if (!as_asked || !possible)
      fail("weights of round {} came where those of {} were asked for", number, wanted.round());
    silent_.erase(node);
    if (away_.erase(node)) audit("back", name_of(node), wanted.round(), "");
    return parcel;
  } catch (const InputError& error) {
    trouble(fmt::format("{}: {}", name_of(node), error.what()));
    return {};
  }
}

// Who was silent for longer than there is patience.
bool Staying::gives_up(std::size_t node) {
  const Time now = Clock::now();
  if (now - silent_.emplace(node, now).first->second < setup.patience) return false;
  if (away_.insert(node).second) audit("passed over", name_of(node), home_.done + 1, "it cannot be reached");
  return true;
}

Staying::Gathered Staying::gather(const std::vector<std::size_t>& nodes, std::size_t round, bool start) {
  Gathered result;
  pb::PeerFetch wanted;
  wanted.set_round(round);
  wanted.set_start(start);
  std::set<std::size_t> missing(nodes.begin(), nodes.end());
  while (!missing.empty()) {
    bool pause = false;
    for (const std::size_t node : std::vector(missing.begin(), missing.end())) {
      *wanted.mutable_hello() = hello();
      auto parcel = fetch(node, wanted);
      if ((result.stopped = stopped())) return result;
      if (!parcel) {
        if (gives_up(node)) result.passed_over.insert(node);
      } else if (parcel->kind == pb::PeerWeights::START && !start) {
        result.later = std::move(parcel->weights);
        result.ahead = node;
        return result;
      } else if (!parcel->weights.values.empty()) {
        result.weights[node] = std::move(parcel->weights.values);
      }
      const bool pending = parcel && parcel->kind == pb::PeerWeights::PENDING;
      const bool settled = !pending && (parcel || result.passed_over.contains(node));
      if (settled) missing.erase(node);
      pause = pause || (!settled && (!pending || long_poll_ == 0ms));
    }
    meanwhile();
    if (pause && wait(kAgain)) result.stopped = true;
    if (result.stopped) return result;
  }
  return result;
}

// --- What it does ---

Staying::Trained Staying::train(std::size_t part, const Flat& theta) {
  State state;
  state.add("theta", experiment.layout, /*broadcast=*/true, theta);
  try {
    Update update = train_at({part, setup.self, experiment.seed(), state}, nodes_, side_);
    const auto& training = update.training;
    return {std::move(update["theta"]), training.loss_sum / static_cast<double>(training.examples)};
  } catch (const RefusedUpdate& refused) {
    audit("refused", own_name(), part, refused.what());
    return {};
  }
}

std::optional<double> Staying::accuracy(const Flat& theta) {
  if (experiment.federated.data.train->classes == 0) return {};
  std::ranges::copy(theta, side_.shared().parameters().begin());
  return test_classes(side_.shared(), nodes_.test(setup.self), side_.buffer()).accuracy;
}

void Staying::keep(Home home) {
  file_.save(home);
  const std::lock_guard lock(mutex);
  home_ = std::move(home);
  offer_.reset();
  changed.notify_all();
}

void Staying::offer(Flat weights) {
  const std::lock_guard lock(mutex);
  offer_ = std::move(weights);
  changed.notify_all();
}

void Staying::note(Json line) const {
  line["time"] = timestamp();
  real_files().append(setup.folder / "trainings.jsonl", line.dump() + "\n");
  log.say("trained", {{"line", line.dump()}});
}

std::vector<std::size_t> Staying::others() const {
  auto nodes = experiment.network->nodes();
  std::erase(nodes, setup.self);
  return nodes;
}

// --- How it ends ---

void Staying::read_model() {
  const auto file = setup.folder / "model.safetensors";
  if (home_.done < parts || !std::filesystem::exists(file)) return;
  State state;
  state.add("theta", experiment.layout, /*broadcast=*/true, experiment.initial);
  state.restore(parse_safetensors(read_file(file), file.string()), file.string());
  const auto theta = state.at("theta");
  model_ = Flat(theta.begin(), theta.end());
}

void Staying::write_model(const Flat& model) {
  State state;
  state.add("theta", experiment.layout, /*broadcast=*/true, model);
  state.write(real_files(), setup.folder / "model.safetensors");
  const std::lock_guard lock(mutex);
  model_ = model;
}

// Who was away at the end hears it from one that was there.
std::optional<Flat> Staying::model_of_another(const Gathered& last) {
  pb::PeerFetch wanted;
  *wanted.mutable_hello() = hello();
  wanted.set_round(parts + 1);
  wanted.set_model(true);
  for (const auto& [node, weights] : last.weights) {
    auto parcel = fetch(node, wanted);
    if (!parcel || parcel->weights.values.empty()) continue;
    audit("ended", name_of(node), parts, "with the model of this peer, which ended before");
    return std::move(parcel->weights.values);
  }
  return {};
}

bool Staying::finish() {
  Gathered last;
  do {
    last = gather(others(), parts + 1, true);
    if (last.stopped || (last.weights.empty() && !others().empty() && wait(kAgain))) return false;
  } while (last.weights.empty() && !others().empty());  // alone, one knows of no end
  if (!last.passed_over.empty()) {
    if (const auto model = model_of_another(last)) {
      write_model(*model);
      return true;
    }
  }
  last.weights[setup.self] = home_.theta;
  std::vector<std::span<const float>> all;
  for (const auto& [node, weights] : last.weights) all.push_back(weights);
  write_model(mean_of(all));
  audit("ended", own_name(), parts,
        fmt::format("with the mean of {} of {} peers' weights", all.size(), experiment.network->nodes().size()));
  return true;
}

// Until all have what they need of this peer, and know that it has what it needs of them.
void Staying::farewell() {
  const Time until = Clock::now() + std::max(setup.farewell, setup.patience + std::chrono::milliseconds(2s));
  const auto settled = [&](std::size_t node) {
    const std::lock_guard lock(mutex);
    return told_.contains(name_of(node)) && ended_.contains(name_of(node));
  };
  while (true) {
    for (const std::size_t node : others()) {
      if (settled(node)) continue;
      const auto reply = greet(node, false, kBriefly);
      if (!reply) continue;
      const std::lock_guard lock(mutex);
      told_.insert(name_of(node));
      if (reply->moves_size() > 0 && reply->moves(0) > parts) ended_.insert(name_of(node));
    }
    if (std::ranges::all_of(others(), settled) || Clock::now() > until || wait(kAgain)) return;
    meanwhile();
  }
}

bool Staying::run() {
  audit("started", own_name(), home_.done, setup.listen);
  if (home_.done == 0 && !await_everyone()) return false;
  while (home_.done < parts) {
    if (stopped() || !advance()) return false;
  }
  if (!model_ && !finish()) return false;
  farewell();
  return true;
}

std::unique_ptr<Station> make_staying(const PeerSetup& setup, const Log& log) {
  const bool gossips = setup.experiment->settings.method.text("name") == "gossip";
  return gossips ? make_gossiping(setup, log) : make_lockstep(setup, log);
}

}  // namespace parley::wire
