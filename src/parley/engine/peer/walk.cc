#include "parley/engine/peer/walk.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "parley/base/errors.h"

namespace parley {
namespace {

// Times in the lineage, to the microsecond.
double shown(double value) {
  return std::round(value * 1e6) / 1e6;
}

}  // namespace

Walk::Walk(const Experiment& experiment, ClientStore& store, std::size_t threads)
    : experiment_(experiment),
      network_(*experiment.network),
      store_(store),
      hosting_(experiment, threads),
      free_(experiment.clients(), 0.0),
      workers_(experiment.client_setup(hosting_.schema()), threads),
      evaluator_(experiment, workers_, store) {
  for (std::size_t node = 0; node < experiment.clients(); ++node) says_present_.push_back(hosting_.says_present(node));
  for (const std::size_t host : hosting_.first_hosts()) {
    events_.plan(0.0, host, PeerEvent::Kind::arrive, travellers_.size());
    travellers_.push_back(hosting_.new_traveller(travellers_.size(), host));
  }
  state_ = ensemble(travellers_, experiment_.layout);
  visits_.resize(travellers_.size());
}

std::vector<std::span<const float>> Walk::members() const {
  std::vector<std::span<const float>> result;
  for (const auto& traveller : travellers_) result.push_back(traveller.state.at("theta"));
  return result;
}

RoundReport Walk::round(std::size_t number, const RoundProgress& done) {
  RoundReport report{.round = number, .visits = Json::array()};
  report.extra = {{"lost_visits", 0.0}};
  const double began = events_.now();
  const std::size_t visits = hosting_.visits_a_round();
  for (std::size_t finished = 0; finished < visits;) {
    const PeerEvent event = events_.next();
    switch (event.kind) {
      case PeerEvent::Kind::arrive: arrive(event, report); break;
      case PeerEvent::Kind::lose: lose(event.subject, event.node, report); break;
      default:
        leave(event, report);
        ++finished;
        if (done) done(finished, visits);
    }
  }
  finish(report, began);
  return report;
}

void Walk::arrive(const PeerEvent& event, RoundReport& report) {
  if (!network_.alive(event.node, event.time)) return lose(event.subject, event.node, report);
  const double start = std::max(event.time, free_[event.node]);
  const double end = start + network_.pace().training_seconds(event.node, hosting_.nodes().steps(event.node));
  if (network_.dies(event.node) <= end) {
    events_.plan(network_.dies(event.node), event.node, PeerEvent::Kind::lose, event.subject);
    return;
  }
  free_[event.node] = end;
  visits_[event.subject] = {.begun = true, .start = start};
  events_.plan(end, event.node, PeerEvent::Kind::leave, event.subject);
}

void Walk::lose(std::size_t model, std::size_t node, RoundReport& report) {
  const double now = events_.now();
  Traveller& traveller = travellers_[model];
  ++report.extra["lost_visits"];
  report.visits.push_back({{"model", model}, {"node", node}, {"end", shown(now)}, {"fate", "lost"}});
  if (network_.alive(traveller.sender, now)) return move_on(model, traveller.sender, report);
  // The sender has died too. Whoever is there takes over, as from a tracker (§6.1.1) that knows the last copy.
  const double when = network_.next_presence(now);
  if (!std::isfinite(when)) {
    fail<RunError>("after {:.3f} simulated seconds all nodes have died; lower peer.failures or raise peer.horizon",
                   now);
  }
  const auto living = network_.living(when);
  traveller.host = traveller.sender = living[Stream(traveller.seed, "rescue", traveller.moves++).below(living.size())];
  events_.plan(when, traveller.host, PeerEvent::Kind::arrive, model);
}

void Walk::move_on(std::size_t model, std::size_t keeper, RoundReport& report) {
  Traveller& traveller = travellers_[model];
  traveller.sender = traveller.host = keeper;
  ++traveller.moves;
  const auto neighbours = network_.neighbours(keeper, events_.now());
  // With nobody to go to it trains where it is, until somebody joins.
  if (neighbours.empty()) return events_.plan(events_.now(), keeper, PeerEvent::Kind::arrive, model);
  const WalkOptions& options = hosting_.options();
  const std::size_t next = traveller.choose(
      neighbours, options, [&](std::size_t node) { return benefit(traveller.belief, says_present_[node]); });
  if (options.route == Route::benefit) {  // the belief to each candidate, a number back
    report.bytes_up += options.asked_of(neighbours.size()) * (traveller.belief.size() + 1) * sizeof(float);
  }
  traveller.host = next;
  ++report.transmissions;
  report.bytes_up += traveller.bytes();
  events_.plan(events_.now() + network_.pace().transfer_seconds(keeper, next, traveller.bytes()), next,
               PeerEvent::Kind::arrive, model);
}

void Walk::leave(const PeerEvent& event, RoundReport& report) {
  train_begun();
  Visit visit = std::move(visits_[event.subject]);
  visits_[event.subject] = {};
  Traveller& traveller = travellers_[event.subject];
  Json line = {
      {"model", event.subject}, {"node", event.node}, {"start", shown(visit.start)}, {"end", shown(event.time)}};
  const VisitResult& result = visit.result;
  if (result.refusal.empty()) {
    ++report.clients;
    report.epochs += static_cast<double>(hosting_.nodes().local().epochs);
    report.train_loss += result.update.training.loss_sum;
    report.examples += result.update.training.examples;
    report.steps += result.update.training.steps;
    line.update({{"before", result.before.accuracy}, {"after", result.after.accuracy}});
  } else {
    report.refused.push_back(fmt::format("model {} at client {}: {}", event.subject, event.node, result.refusal));
    line["fate"] = "refused";
  }
  report.visits.push_back(std::move(line));
  hosting_.take_leave(traveller, std::move(visit.result));
  move_on(event.subject, event.node, report);
}

void Walk::train_begun() {
  std::vector<std::size_t> waiting;
  for (std::size_t model = 0; model < visits_.size(); ++model) {
    if (visits_[model].begun && !visits_[model].trained) waiting.push_back(model);
  }
  workers_.run(waiting.size(), [&](ClientSide& side, std::size_t index) {
    Visit& visit = visits_[waiting[index]];
    visit.result = hosting_.visit(side, travellers_[waiting[index]]);
    visit.trained = true;
  });
}

void Walk::finish(RoundReport& report, double began) {
  if (report.clients == 0) {
    fail<RunError>("round {}: none of the {} visits was accepted; {}", report.round, hosting_.visits_a_round(),
                   fmt::join(report.refused, "; "));
  }
  report.train_loss /= static_cast<double>(report.examples);
  report.simulated_seconds = events_.now() - began;
  double buffers = 0.0, beliefs = 0.0;
  for (std::size_t k = 0; k < travellers_.size(); ++k) {
    const Traveller& traveller = travellers_[k];
    std::ranges::copy(traveller.state.at("theta"), state_.at(member_name(k)).begin());
    store_.stage(k, traveller.record());
    buffers += static_cast<double>(traveller.buffer_size);
    for (const double p : traveller.belief) beliefs += p / static_cast<double>(traveller.belief.size());
  }
  report.extra["buffer"] = buffers / static_cast<double>(travellers_.size());
  report.extra["belief"] = beliefs / static_cast<double>(travellers_.size());
}

Evaluation Walk::evaluate(const Dataset& data) {
  return evaluator_.evaluate(members(), data);
}

MeanPrediction Walk::predict(const Dataset& data) {
  return evaluator_.predict(members(), data);
}

std::map<std::string, double> Walk::measure(std::size_t round, bool last) {
  auto metrics = evaluator_.measure(state_, members(), round, last);
  if (travellers_.size() == 1) return metrics;
  double sum = 0.0;
  for (const auto& member : members()) {
    sum += evaluator_.evaluate({member}, *experiment_.federated.data.test).accuracy();
  }
  metrics["single_accuracy"] = sum / static_cast<double>(travellers_.size());
  return metrics;
}

Json Walk::progress() const {
  Json travellers = Json::array(), begun = Json::array();
  for (const auto& traveller : travellers_) travellers.push_back(traveller.progress());
  for (const auto& visit : visits_) begun.push_back(visit.begun ? Json(visit.start) : Json());
  return {{"events", events_.progress()}, {"free", free_}, {"begun", begun}, {"travellers", travellers}};
}

// Visits that had begun are trained again: they depend on what is restored alone.
void Walk::restore(const Json& progress) {
  try {
    events_.restore(progress.at("events"));
    progress.at("free").get_to(free_);
    for (std::size_t k = 0; k < travellers_.size(); ++k) {
      travellers_[k].restore(store_.load(k).value(), progress.at("travellers").at(k), hosting_.schema());
      const Json& start = progress.at("begun").at(k);
      visits_[k] = start.is_null() ? Visit{} : Visit{.begun = true, .start = start.get<double>()};
    }
  } catch (const std::exception& error) {
    fail("the checkpoint does not hold what these models carried ({}); begin again with --overwrite", error.what());
  }
}

}  // namespace parley
