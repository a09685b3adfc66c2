#include "parley/engine/time_budget.h"

#include <algorithm>
#include <cmath>

#include "parley/base/errors.h"
#include "parley/engine/cohort.h"
#include "parley/engine/server_side.h"

namespace parley {
namespace {

// After so many rounds without a turn a client may have become quicker, and is tried again.
constexpr std::size_t kRemembered = 10;

}  // namespace

TimeBudget::TimeBudget(const Experiment& experiment, bool measured)
    : experiment_(experiment),
      measured_(measured),
      fedcs_(experiment.settings.server.text("cohort") == "fedcs"),
      adaptive_(experiment.settings.server.text("steps") == "adaptive"),
      seconds_(experiment.settings.server.real("round_seconds")),
      local_(experiment.settings.client) {
  if (!in_use()) return;
  if (measured) {
    observed_.resize(experiment.clients());
  } else {
    bytes_down_ = Broadcast(starting_state(experiment.server_setup())).wire_bytes();
    bytes_up_ = Update(share(experiment.method->schema())).wire_bytes();
  }
}

std::optional<TimeBudget::Speed> TimeBudget::speed(std::size_t client, std::size_t round) const {
  if (!measured_) {
    const Pace& pace = *experiment_.pace;
    return Speed{.fixed = pace.turn_seconds(client, bytes_down_, 0, bytes_up_),
                 .per_step = pace.training_seconds(client, 1)};
  }
  const auto& known = observed_[client];
  return known && round <= known->seen + kRemembered ? known : std::nullopt;
}

std::size_t TimeBudget::steps_in_time(const Speed& speed, std::size_t client) const {
  const double most = std::floor((seconds_ - speed.fixed) / speed.per_step);
  const auto all = static_cast<double>(planned(client));
  return static_cast<std::size_t>(std::clamp(most, std::min(1.0, all), all));
}

std::size_t TimeBudget::steps(std::size_t client, std::size_t round) const {
  if (!adaptive_) return 0;
  const auto known = speed(client, round);
  return known ? steps_in_time(*known, client) : 0;
}

std::optional<double> TimeBudget::expected_seconds(std::size_t client, std::size_t round) const {
  const auto known = speed(client, round);
  if (!known) return {};
  const std::size_t steps = adaptive_ ? steps_in_time(*known, client) : planned(client);
  return known->fixed + known->per_step * static_cast<double>(steps);
}

std::vector<std::size_t> TimeBudget::cohort(const CohortTask& task) const {
  std::vector<std::pair<double, std::size_t>> candidates;
  for (const std::size_t client : draw_at_random(task)) {
    candidates.push_back({expected_seconds(client, task.round).value_or(0.0), client});
  }
  std::ranges::sort(candidates);
  std::vector<std::size_t> chosen{candidates.front().second};
  for (const auto& [seconds, client] : candidates) {
    if (seconds > seconds_) break;  // Eq. 3.4 of Kiss 2021 would not hold with this one, nor with any that follows
    if (client != chosen.front()) chosen.push_back(client);
  }
  return chosen;
}

void TimeBudget::observe(std::size_t round, const Turn& turn) {
  if (!in_use()) return;
  Speed& known = observed_.at(turn.client).emplace(Speed{0.0, 0.0, round});
  if (turn.steps > 0) {
    // A clock that says more than the whole turn is not believed.
    const double training = turn.training > 0.0 && turn.training <= turn.seconds ? turn.training : turn.seconds;
    known.fixed = turn.seconds - training;
    known.per_step = training / static_cast<double>(turn.steps);
  } else {
    known.per_step = turn.seconds / static_cast<double>(std::max<std::size_t>(planned(turn.client), 1));  // or more
  }
}

Json TimeBudget::progress() const {
  if (observed_.empty()) return nullptr;
  Json all = Json::array();
  for (const auto& known : observed_) {
    all.push_back(known ? Json{known->fixed, known->per_step, known->seen} : Json(nullptr));
  }
  return all;
}

void TimeBudget::restore(const Json& progress) {
  if (!progress.is_array() || progress.size() != observed_.size()) return;
  for (std::size_t client = 0; client < observed_.size(); ++client) {
    const Json& known = progress[client];
    if (known.is_null()) continue;
    observed_[client] = Speed{known.at(0).get<double>(), known.at(1).get<double>(), known.at(2).get<std::size_t>()};
  }
}

void require_fit_for_time_budget(const Experiment& experiment) {
  const Settings& settings = experiment.settings;
  const bool fedcs = settings.server.text("cohort") == "fedcs", adaptive = settings.server.text("steps") == "adaptive";
  const double seconds = settings.server.real("round_seconds");
  if (!fedcs && !adaptive) {
    if (seconds == 0.0) return;
    fail(
        "server.round_seconds = {}: nothing goes by it; set server.cohort = \"fedcs\" or server.steps = \"adaptive\" "
        "(on a network, serve.deadline ends a round)",
        seconds);
  }
  const std::string key = fedcs ? "server.cohort = \"fedcs\"" : "server.steps = \"adaptive\"";
  const std::string& name = settings.method.text("name");
  if (settings.among_peers) fail("{}: {} has no server that asks clients; leave it out", key, name);
  if (seconds == 0.0) fail("{}: say how long a round may take with server.round_seconds", key);
  if (settings.server.text("rounds") == "buffered") {
    fail("{}: buffered rounds wait for nobody, so none has to be in time; use server.rounds = \"synchronous\"", key);
  }
  if (fedcs && experiment.method->cohort_rule() != nullptr) {
    fail("{}: {} chooses its own cohorts; use \"random\"", key, name);
  }
  if (adaptive && !experiment.method->trains()) {
    fail("server.steps = \"adaptive\": the clients of {} do not train in steps that could be fewer; use \"all\"", name);
  }
}

void require_somebody_in_time(const Experiment& experiment) {
  const TimeBudget budget(experiment, false);
  if (!budget.in_use()) return;
  const Options& server = experiment.settings.server;
  const std::string key = budget.chooses_cohort() ? "server.cohort = \"fedcs\"" : "server.steps = \"adaptive\"";
  if (!experiment.settings.network_given) {
    fail(
        "{}: without [network] all simulated machines are equally quick; say how quick they are, for example with "
        "network.speed_spread = 1",
        key);
  }
  double quickest = INFINITY;
  std::size_t in_time = 0;
  const Roster roster(experiment.sizes);
  for (const std::size_t client : roster.holders()) {
    const double seconds = *budget.expected_seconds(client, 1);
    quickest = std::min(quickest, seconds);
    in_time += seconds <= server.real("round_seconds");
  }
  if (in_time == 0) {
    fail(
        "server.round_seconds = {}: no client can answer in that time; the quickest needs {:.3g} s on the machines "
        "and links of [network]",
        server.real("round_seconds"), quickest);
  }
  const auto least = static_cast<std::size_t>(server.integer("min_clients"));
  if (budget.chooses_cohort() && in_time < least) {
    fail("server.min_clients = {}: only {} can answer within server.round_seconds = {}; expected at most that many",
         least, in_time, server.real("round_seconds"));
  }
}

}  // namespace parley
