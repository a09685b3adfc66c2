#include "parley/engine/peer/dpsgd.h"

#include <algorithm>

#include "parley/base/errors.h"

namespace parley {

Dpsgd::Dpsgd(const Experiment& experiment, ClientStore& store, std::size_t threads)
    : Residents(experiment, store, threads),
      mixes_old_weights_(experiment.settings.method.text("mix") == "before"),
      model_bytes_(model_bytes(experiment)),
      joined_(experiment.clients()),
      ready_(experiment.clients(), 0.0) {
  for (const std::size_t node : network_.living(0.0)) joined_[node] = true;
}

// The time of the node that is furthest ahead.
double Dpsgd::now() const {
  return *std::ranges::max_element(ready_);
}

void Dpsgd::admit(RoundReport& report) {
  const double time = now();
  for (const std::size_t node : network_.living(time)) {
    if (joined_[node]) continue;
    joined_[node] = true;
    ready_[node] = time;
    const auto neighbours = network_.neighbours(node, time);
    const auto host = std::ranges::find_if(neighbours, [&](std::size_t other) { return joined_[other]; });
    if (host == neighbours.end()) continue;
    std::ranges::copy(theta(*host), theta(node).begin());
    ++report.transmissions;
    report.bytes_up += model_bytes_;
  }
}

// Those who live to finish this round's training.
std::vector<std::size_t> Dpsgd::members() {
  std::vector<std::size_t> result;
  for (const std::size_t node : network_.nodes()) {
    const double end = ready_[node] + network_.pace().training_seconds(node, nodes_.steps(node));
    if (joined_[node] && network_.alive(node, end)) result.push_back(node);
  }
  if (result.empty()) {
    fail<RunError>("after {:.3f} simulated seconds all nodes have died; lower peer.failures or raise peer.horizon",
                   now());
  }
  return result;
}

RoundReport Dpsgd::round(std::size_t number, const RoundProgress& done) {
  RoundReport report{.round = number};
  const double began = now();
  admit(report);
  const auto present = members();
  const auto trained = train(present, std::vector<std::size_t>(present.size(), number));
  std::vector<Offer> offers(present.size());
  for (std::size_t i = 0; i < present.size(); ++i) {
    count(trained[i], present[i], report);
    if (done) done(i + 1, present.size());
    const Flat* after = trained[i].update ? &(*trained[i].update)["theta"] : nullptr;
    offers[i] = offer_of(theta(present[i]), after ? *after : std::span<const float>(), mixes_old_weights_);
  }
  mix_all(present, offers, report);
  report.simulated_seconds = now() - began;
  close(report, now());
  for (const std::size_t node : present) {
    const auto weights = theta(node);
    store_.stage(node, {{"theta", Flat(weights.begin(), weights.end())}});
  }
  return report;
}

// Two mix when each is there as the other ends its training: always both or neither, or the mean would move.
std::vector<std::vector<std::size_t>> Dpsgd::pair_up(const std::vector<std::size_t>& members,
                                                     const std::vector<double>& end) const {
  std::vector<std::vector<std::size_t>> met(end.size()), partners(end.size());
  for (const std::size_t node : members) met[node] = network_.neighbours(node, end[node]);
  for (const std::size_t node : members) {
    std::ranges::copy_if(met[node], std::back_inserter(partners[node]),
                         [&](std::size_t other) { return std::ranges::binary_search(met[other], node); });
  }
  return partners;
}

void Dpsgd::mix_all(const std::vector<std::size_t>& members, const std::vector<Offer>& offers, RoundReport& report) {
  std::vector<double> end = ready_;
  for (const std::size_t node : members) end[node] += network_.pace().training_seconds(node, nodes_.steps(node));
  const auto partners = pair_up(members, end);
  const auto offer_by = [&](std::size_t node) -> const Offer& {
    return offers[static_cast<std::size_t>(std::ranges::lower_bound(members, node) - members.begin())];
  };
  std::vector<Flat> mixed(members.size());
  workers_.run(members.size(), [&](ClientSide&, std::size_t index) {
    const std::size_t node = members[index];
    std::vector<Partner> met;
    for (const std::size_t other : partners[node]) {
      met.push_back({offer_by(other).weights, metropolis_share(partners[node].size(), partners[other].size())});
    }
    mixed[index] = mix(offers[index], met);
  });
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::size_t node = members[i];
    std::ranges::copy(mixed[i], theta(node).begin());
    ready_[node] = end[node];
    for (const std::size_t other : partners[node]) {
      ready_[node] = std::max(ready_[node], end[other] + network_.pace().transfer_seconds(other, node, model_bytes_));
    }
    report.transmissions += partners[node].size();
    report.bytes_up += partners[node].size() * model_bytes_;
  }
}

Json Dpsgd::progress() const {
  return {{"joined", joined_}, {"ready", ready_}};
}

void Dpsgd::restore(const Json& progress) {
  try {
    joined_ = progress.at("joined").get<std::vector<bool>>();
    progress.at("ready").get_to(ready_);
    for (const std::size_t node : network_.nodes()) {
      if (const auto record = store_.load(node)) std::ranges::copy(record->at("theta"), theta(node).begin());
    }
  } catch (const std::exception& error) {
    fail("the checkpoint does not hold what the nodes knew ({}); begin again with --overwrite", error.what());
  }
}

}  // namespace parley
