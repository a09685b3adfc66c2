// D-PSGD between machines: each peer trains, then mixes what its neighbours offer in the same round.
//
// A neighbour's share is that of the whole graph (Metropolis); that of one who is passed over stays with oneself. A
// peer that was away takes over where a neighbour is, as one that joins in the simulation does. Nobody goes on alone:
// who did, would run ahead of all the others, and they would take over its weights when it is back.
#include <algorithm>

#include "parley/engine/peer/mixing.h"
#include "parley/wire/staying.h"

namespace parley::wire {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongPoll = 5s;

class Lockstep final : public Staying {
 public:
  Lockstep(const PeerSetup& given, const Log& to)
      : Staying(given, to, static_cast<std::size_t>(given.experiment->settings.run.integer("rounds")), kLongPoll),
        mixes_old_weights_(experiment.settings.method.text("mix") == "before"),
        neighbours_(experiment.network->neighbours(setup.self, 0.0)) {}

 private:
  bool advance() override;
  Flat mixed(const Offer& own, const Gathered& gathered) const;
  void take_over(const Gathered& gathered);

  const bool mixes_old_weights_;
  const std::vector<std::size_t> neighbours_;
};

Flat Lockstep::mixed(const Offer& own, const Gathered& gathered) const {
  std::vector<Partner> partners;
  for (const auto& [node, weights] : gathered.weights) {
    const std::size_t theirs = experiment.network->neighbours(node, 0.0).size();
    partners.push_back({weights, metropolis_share(neighbours_.size(), theirs)});
  }
  return mix(own, partners);
}

void Lockstep::take_over(const Gathered& gathered) {
  audit("took over", name_of(gathered.ahead), gathered.later->number,
        fmt::format("its weights, instead of those after round {} here", home().done));
  keep({.theta = gathered.later->values, .done = gathered.later->number - 1});
}

bool Lockstep::advance() {
  const std::size_t round = home().done + 1;
  const Trained trained = train(round, home().theta);
  Offer own = offer_of(home().theta, trained.after, mixes_old_weights_);
  offer(own.weights);
  Gathered gathered;
  while (true) {
    gathered = gather(neighbours_, round, false);
    if (gathered.stopped) return false;
    if (gathered.later) {
      take_over(gathered);
      return true;
    }
    if (neighbours_.empty() || gathered.passed_over.size() < neighbours_.size()) break;
    if (wait(kAgain)) return false;
  }
  keep({.theta = mixed(own, gathered), .offered = std::move(own.weights), .done = round});
  Json line = {{"round", round}, {"mixed", Json::array()}, {"passed_over", Json::array()}};
  for (const auto& [node, weights] : gathered.weights) line["mixed"].push_back(name_of(node));
  for (const std::size_t node : gathered.passed_over) line["passed_over"].push_back(name_of(node));
  if (!trained.after.empty()) line["train_loss"] = trained.loss;
  if (const auto share = accuracy(home().theta)) line["accuracy"] = *share;
  note(std::move(line));
  return true;
}

}  // namespace

std::unique_ptr<Station> make_lockstep(const PeerSetup& setup, const Log& log) {
  return std::make_unique<Lockstep>(setup, log);
}

}  // namespace parley::wire
