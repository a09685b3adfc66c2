#include "parley/engine/server_side.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "parley/base/counted.h"
#include "parley/base/errors.h"
#include "parley/base/timeline.h"

namespace parley {

State starting_state(const ServerSetup& setup) {
  State state;
  state.add("theta", setup.layout, true, Flat(setup.initial.begin(), setup.initial.end()));
  setup.method->start(state);
  for (const auto& slot : setup.step->slots()) {
    state.add(slot.name, setup.layout, false, Flat(setup.layout->size(), slot.initial));
  }
  for (std::size_t i = 0; i < setup.stages->size(); ++i) (*setup.stages)[i]->start(state, stage_prefix(i));
  return state;
}

ServerSide::ServerSide(const ServerSetup& setup) : ServerSide(setup, starting_state(setup)) {}

ServerSide::ServerSide(const ServerSetup& setup, State state)
    : setup_(setup), schema_(share(setup.method->schema())), state_(std::move(state)) {}

OpenRound ServerSide::open(std::size_t number, const Roster& roster, const CohortRule* rule) const {
  const Span span("open round", number);
  if (rule == nullptr) rule = setup_.method->cohort_rule();
  return {.number = number,
          .cohort = roster.draw(setup_.participation, setup_.seed, number, rule),
          .broadcast = Broadcast(state_, number)};
}

void ServerSide::check(const OpenRound& round, const Update& update) const {
  if (update.round != round.number) {
    fail<RefusedUpdate>("it answers round {}, and round {} is open", update.round, round.number);
  }
  update.check(*schema_);
}

void ServerSide::require_enough(const OpenRound& round, const FoldedRound& folded) const {
  const std::size_t asked = round.cohort.size(), accepted = folded.sum.count();
  const std::size_t least = setup_.min_clients > 0 ? setup_.min_clients : (asked + 1) / 2;
  if (accepted >= least && accepted > 0) return;
  constexpr std::size_t kShown = 5;
  std::vector<std::string> shown;
  for (const auto& refusal : std::span(folded.refused).first(std::min(kShown, folded.refused.size()))) {
    shown.push_back(fmt::format("client {}: {}", round.cohort[refusal.position], refusal.reason));
  }
  fail<RunError>("round {}: only {} of {} accepted, and server.min_clients asks for {}; {}{}", round.number, accepted,
                 counted(asked, "client was", "clients were"), least, fmt::join(shown, "; "),
                 folded.refused.size() > kShown ? fmt::format("; and {} more", folded.refused.size() - kShown) : "");
}

ClosedRound ServerSide::close(const OpenRound& round, FoldedRound& folded) {
  const Span span("server", round.number);
  require_enough(round, folded);
  State next = state_;  // so that a failed step leaves the state of the round before
  for (std::size_t i = setup_.stages->size(); i-- > 0;) {
    const std::string prefix = stage_prefix(i);
    (*setup_.stages)[i]->backward({.broadcast = round.broadcast,
                                   .state = next,
                                   .prefix = prefix,
                                   .noise = Stream(setup_.seed, fmt::format("stage {} on the sum", i), round.number),
                                   .secrets = setup_.secrets},
                                  folded.sum);
  }
  ServerTask task{.round = round.number,
                  .clients = setup_.clients,
                  .cohort = round.cohort.size(),
                  .state = next,
                  .sum = folded.sum,
                  .step = *setup_.step,
                  .own = setup_.own};
  setup_.method->server(task);
  if (!std::ranges::all_of(std::as_const(next).at("theta"), [](float x) { return std::isfinite(x); })) {
    fail<RunError>("round {}: the server's step diverged: the new weights are not finite; lower server.lr or client.lr",
                   round.number);
  }
  state_ = std::move(next);
  return {.metrics = std::move(task.metrics), .finished = task.finished};
}

}  // namespace parley
