#include "parley/engine/peer/gossip.h"

#include <algorithm>

#include "parley/base/errors.h"
#include "parley/engine/peer/mixing.h"

namespace parley {

using Kind = PeerEvent::Kind;

Gossip::Gossip(const Experiment& experiment, ClientStore& store, std::size_t threads)
    : Residents(experiment, store, threads),
      period_(experiment.settings.method.real("period")),
      model_bytes_(model_bytes(experiment)),
      age_(experiment.clients()),
      trainings_(experiment.clients()),
      free_(experiment.clients(), 0.0),
      begun_(experiment.clients()),
      trained_(experiment.clients()) {
  const auto visits = static_cast<std::size_t>(experiment.settings.peer.integer("visits"));
  visits_a_round_ = visits > 0 ? visits : network_.nodes().size();
  Stream phases(seed_, "gossip phase");  // nodes do not wake together
  for (const std::size_t node : network_.nodes()) events_.plan(phases.uniform(0.0, period_), node, Kind::wake, 0);
}

RoundReport Gossip::round(std::size_t number, const RoundProgress& done) {
  RoundReport report{.round = number};
  report.extra = {{"lost_visits", 0.0}};
  const double began = events_.now();
  for (std::size_t finished = 0; finished < visits_a_round_;) {
    if (events_.empty()) {
      fail<RunError>("after {:.3f} simulated seconds all nodes have died; lower peer.failures or raise peer.horizon",
                     events_.now());
    }
    const PeerEvent event = events_.next();
    if (event.kind == Kind::wake) {
      wake(event.node, report);
    } else if (event.kind == Kind::arrive) {
      arrive(event, report);
    } else {
      leave(event.node, report);
      ++finished;
      if (done) done(finished, visits_a_round_);
    }
  }
  report.simulated_seconds = events_.now() - began;
  close(report, events_.now());
  stage();
  return report;
}

void Gossip::wake(std::size_t node, RoundReport& report) {
  const double now = events_.now();
  if (now >= network_.dies(node)) return;
  events_.plan(now + period_, node, Kind::wake, 0);
  if (!network_.alive(node, now)) return;  // not there yet
  const auto neighbours = network_.neighbours(node, now);
  if (neighbours.empty()) {  // alone it learns from itself
    if (!begun_[node]) begin(node, report);
    return;
  }
  const std::size_t to = neighbours[Stream(seed_, "gossip", sent_, node).below(neighbours.size())];
  const auto weights = theta(node);
  messages_[sent_] = {.to = to, .age = age_[node], .weights = Flat(weights.begin(), weights.end())};
  const std::size_t bytes = model_bytes_ + sizeof(std::uint64_t);  // and the age
  ++report.transmissions;
  report.bytes_up += bytes;
  events_.plan(now + network_.pace().transfer_seconds(node, to, bytes), to, Kind::arrive, sent_++);
}

void Gossip::arrive(const PeerEvent& event, RoundReport& report) {
  const std::size_t node = event.node;
  const bool alive = network_.alive(node, event.time);
  if (!messages_.contains(event.subject)) return;  // a later one took its place
  if (alive && begun_[node]) return wait(node, event.subject);
  const auto message = messages_.extract(event.subject);
  if (!alive) {
    ++report.extra["lost_visits"];
    return;
  }
  merge_by_age(theta(node), age_[node], {message.mapped().weights, message.mapped().age});
  begin(node, report);
}

void Gossip::wait(std::size_t node, std::size_t message) {
  std::erase_if(messages_, [&](const auto& other) {
    return other.first != message && other.second.to == node && other.second.waiting;
  });
  messages_[message].waiting = true;
  events_.plan(free_[node], node, Kind::arrive, message);
}

void Gossip::begin(std::size_t node, RoundReport& report) {
  const double end = events_.now() + network_.pace().training_seconds(node, nodes_.steps(node));
  if (network_.dies(node) <= end) {
    ++report.extra["lost_visits"];
    return;
  }
  ++trainings_[node];
  begun_[node] = true;
  free_[node] = end;
  events_.plan(end, node, Kind::leave, 0);
}

void Gossip::leave(std::size_t node, RoundReport& report) {
  train_begun();
  const Trained trained = std::move(*trained_[node]);
  trained_[node].reset();
  begun_[node] = false;
  count(trained, node, report);
  if (!trained.update) return;
  std::ranges::copy((*trained.update)["theta"], theta(node).begin());
  ++age_[node];
}

// As in Walk: what has begun depends on nothing that happens meanwhile.
void Gossip::train_begun() {
  std::vector<std::size_t> waiting, rounds;
  for (const std::size_t node : network_.nodes()) {
    if (!begun_[node] || trained_[node]) continue;
    waiting.push_back(node);
    rounds.push_back(trainings_[node]);
  }
  auto results = train(waiting, rounds);
  for (std::size_t i = 0; i < waiting.size(); ++i) trained_[waiting[i]] = std::move(results[i]);
}

void Gossip::stage() {
  std::map<std::size_t, ClientRecord> records;
  for (const std::size_t node : network_.nodes()) {
    const auto weights = theta(node);
    records[node]["theta"] = Flat(weights.begin(), weights.end());
  }
  for (const auto& [number, message] : messages_) {
    records[message.to][fmt::format("message {}", number)] = message.weights;
  }
  for (auto& [node, record] : records) store_.stage(node, std::move(record));
}

Json Gossip::progress() const {
  Json messages = Json::array();
  for (const auto& [number, message] : messages_)
    messages.push_back({number, message.to, message.age, message.waiting});
  return {{"events", events_.progress()}, {"messages", messages}, {"sent", sent_},  {"age", age_},
          {"trainings", trainings_},      {"free", free_},        {"begun", begun_}};
}

void Gossip::restore(const Json& progress) {
  try {
    events_.restore(progress.at("events"));
    progress.at("sent").get_to(sent_);
    progress.at("age").get_to(age_);
    progress.at("trainings").get_to(trainings_);
    progress.at("free").get_to(free_);
    begun_ = progress.at("begun").get<std::vector<bool>>();
    std::map<std::size_t, ClientRecord> records;
    for (const std::size_t node : network_.nodes()) {
      records[node] = store_.load(node).value();
      std::ranges::copy(records[node].at("theta"), theta(node).begin());
    }
    for (const auto& saved : progress.at("messages")) {
      const auto number = saved.at(0).get<std::size_t>(), to = saved.at(1).get<std::size_t>();
      messages_[number] = {to, saved.at(2).get<std::size_t>(), records[to].at(fmt::format("message {}", number)),
                           saved.at(3).get<bool>()};
    }
  } catch (const std::exception& error) {
    fail("the checkpoint does not hold what the nodes knew ({}); begin again with --overwrite", error.what());
  }
}

}  // namespace parley
