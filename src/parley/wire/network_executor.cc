#include "parley/wire/network_executor.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "parley/wire/folded.h"

namespace parley::wire {
namespace {

using namespace std::chrono_literals;

// A transfer that brings less than this is a node that hangs.
constexpr double kSlowestBytesPerSecond = 16e3;
constexpr double kTransferSeconds = 30.0;

Clock::duration seconds(double count) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(count));
}

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

}  // namespace

void read_answer(const Bytes& bytes, const SharedSchema& schema, const Broadcast& broadcast, const Sender& sender,
                 bool uniform_weights, Answer& answer) {
  answer.update = Update::decode(bytes, schema, broadcast);
  if (answer.update.client != sender.client) {
    fail<RefusedUpdate>("it answers for client {}, and is client {}", answer.update.client, sender.client);
  }
  const double weight = uniform_weights ? 1.0 : static_cast<double>(sender.examples);
  if (answer.update.weight != weight) {
    fail<RefusedUpdate>("it wants to weigh {}; it joined with {}", answer.update.weight, weight);
  }
  if (!std::isfinite(sender.epochs) || sender.epochs < 0.0) fail<RefusedUpdate>("it says {} epochs", sender.epochs);
  answer.record.reset();
  answer.own.reset();
  answer.epochs = sender.epochs;
}

Clock::duration time_to_send(std::size_t length) {
  return seconds(kTransferSeconds + static_cast<double>(length) / kSlowestBytesPerSecond);
}

namespace {

// One round, as it is played.
class Play {
 public:
  Play(Hub& hub, const Log& log, const RoundRules& rules, const RoundInProgress& round,
       const std::map<std::size_t, std::size_t>& last_accepted)
      : hub_(hub), log_(log), rules_(rules), round_(round) {
    const auto& cohort = round.round.cohort;
    for (std::size_t position = 0; position < cohort.size(); ++position) {
      const std::size_t who = hub.answers_for(cohort[position]);
      const auto [found, fresh] = place_of_.try_emplace(who, places_.size());
      if (fresh) places_.push_back({.client = who, .relay = hub.is_relay(who)});
      const auto last = last_accepted.find(cohort[position]);
      places_[found->second].asked.push_back({cohort[position], last == last_accepted.end() ? 0 : last->second});
      places_[found->second].positions.push_back(position);
      by_sums_ = by_sums_ || places_[found->second].relay;
    }
    if (by_sums_) settlements_.resize(cohort.size());
    if (rules_.enough == 0) rules_.enough = cohort.size();
    if (rules_.quorum == 0) rules_.quorum = (cohort.size() + 1) / 2;
  }

  void run(const std::function<bool()>& outdated) {
    for (Place& place : places_) invite(place);
    while (first_open() < places_.size()) {
      take_answers();
      give_up();
      if (first_open() == places_.size()) break;
      const auto event = hub_.next(Clock::now() + 200ms);
      if (hub_.stopped()) throw Stopped(fmt::format("stopped in round {}; start again to go on", round_.round.number));
      if (outdated && outdated())
        throw Stopped(fmt::format("round {} is of no interest any more", round_.round.number));
      if (event) handle(*event);
    }
    if (!by_sums_) return;
    Sum nothing(round_.fold.schema());
    round_.fold.push_block(nothing, settlements_);
  }
  // Whose answers count.
  const std::vector<Counted>& accepted() const { return accepted_; }
  // How long everybody took who was there to be asked.
  std::vector<Turn> turns() const {
    std::vector<Turn> turns;
    for (const Place& place : places_) {
      if (place.turn.seconds > 0.0) turns.push_back(place.turn);
    }
    return turns;
  }

 private:
  enum class Status { away, training, offered, sending, settled };
  // Of a node, or of a relay with all of its clients that are asked.
  struct Place {
    std::size_t client;  // the relay's first, whether it is asked or not
    bool relay = false;
    std::vector<AskedClient> asked = {};
    std::vector<std::size_t> positions = {};  // of these in the cohort
    Status status = Status::away;
    std::size_t length = 0;
    double epochs = 0.0;
    Clock::time_point since = {};  // training, sending: when that began
    Clock::time_point until = {};  // sending: when that takes too long
    Turn turn = {.client = client, .seconds = 0.0};
    std::optional<ClientResult> own = {};  // of what training left, where that was asked for
  };

  std::size_t first_open() {
    while (next_ < places_.size() && places_[next_].status == Status::settled) ++next_;
    return next_;
  }

  Invitation invitation_of(const Place& place) const { return round_.invitation(place.positions.front()); }

  void invite(Place& place) {
    const Invitation asked = invitation_of(place);
    place.since = Clock::now();
    const bool there = place.relay
                           ? hub_.invite_relay(place.client, place.asked)
                           : hub_.invite(place.client, place.asked.front().last_accepted, asked.steps, asked.test_own);
    place.status = there ? Status::training : Status::away;
  }

  void take_answers() {
    const std::size_t end = std::min(places_.size(), first_open() + rules_.window);
    for (std::size_t p = next_; p < end; ++p) {
      Place& place = places_[p];
      if (place.status != Status::offered) continue;
      place.status = Status::sending;
      place.since = Clock::now();
      place.until = Clock::now() + time_to_send(place.length);
      hub_.take(place.client, place.length);
    }
  }

  bool has_offered(const Place& place) const {
    return place.status == Status::offered || place.status == Status::sending;
  }

  void give_up() {
    const auto now = Clock::now();
    for (Place& place : places_) {
      if (place.status == Status::sending && now > place.until) refuse(place, "its answer did not come in time");
    }
    std::size_t there = accepted_.size();
    for (const Place& place : places_) there += has_offered(place) ? place.asked.size() : 0;
    if (there >= rules_.enough) return refuse_open(fmt::format("the round has its {} answers", rules_.enough));
    if (rules_.deadline == 0.0 || now < began_ + seconds(rules_.deadline)) return;
    if (there >= rules_.quorum) return refuse_open(fmt::format("no answer within {} s", rules_.deadline));
    if (said_late_) return;
    said_late_ = true;
    log_.say("waiting for a quorum", {{"round", std::to_string(round_.round.number)},
                                      {"answers", std::to_string(there)},
                                      {"quorum", std::to_string(rules_.quorum)}});
  }

  void refuse_open(const std::string& reason) {
    for (Place& place : places_) {
      if (place.status == Status::training) place.turn.seconds = seconds_since(place.since);  // or more
      if (place.status == Status::away || place.status == Status::training) refuse(place, reason);
    }
  }

  void handle(const Event& event) {
    const auto found = place_of_.find(event.client);
    if (found == place_of_.end()) return;  // not of this cohort
    Place& place = places_[found->second];
    if (place.status == Status::settled) return;
    switch (event.kind) {
      case Event::Kind::joined: return invite(place);
      case Event::Kind::left: place.status = Status::away; return;
      case Event::Kind::spoiled: return refuse(place, event.reason);
      case Event::Kind::tested: return;  // nobody was asked to
      case Event::Kind::offered:
        if (place.status != Status::training) return;
        place.status = Status::offered;
        place.length = event.length;
        place.epochs = event.epochs;
        place.turn.seconds = seconds_since(place.since);
        place.turn.training = event.seconds;
        place.own = event.result;
        return;
      case Event::Kind::answered:
        if (place.status != Status::sending) return;
        place.turn.seconds += seconds_since(place.since);  // what it waited for its turn is not its own
        return place.relay ? accept_sum(place, event.bytes) : accept(place, event.bytes);
    }
  }

  // Complete and checked before it is anywhere near the sum.
  void accept(Place& place, const Bytes& bytes) {
    auto answer = round_.fold.borrow();
    try {
      const Sender sender{place.client, hub_.examples_of(place.client), place.epochs};
      read_answer(bytes, round_.fold.schema(), round_.round.broadcast, sender, rules_.uniform_weights, *answer);
      round_.check(answer->update);
    } catch (const RefusedUpdate& refused) {
      return refuse(place, refused.what());
    }
    place.turn.steps = answer->update.training.steps;
    if (invitation_of(place).test_own) answer->own = std::move(place.own);
    accepted_.push_back({place.client, round_.round.number});
    hub_.verdict(place.client, true, "");
    if (!by_sums_) return settle(place, std::move(answer), {});
    Sum one(round_.fold.schema());
    one.add(answer->update);
    settle_sum(place, std::move(one),
               {{.client = place.client,
                 .steps = answer->update.training.steps,
                 .wire_bytes = answer->update.wire_bytes(),
                 .epochs = answer->epochs}});
  }

  // What a relay has folded.
  void accept_sum(Place& place, const Bytes& bytes) {
    FoldedFrom from{round_.round.number, {}, hub_.sizes(), rules_.uniform_weights};
    for (const AskedClient& asked : place.asked) from.clients.push_back(asked.client);
    std::optional<FoldedAnswer> answer;
    try {
      answer = decode_folded(bytes, round_.fold.schema(), from);
    } catch (const RefusedUpdate& refused) {
      return refuse(place, refused.what());
    }
    for (const Settlement& settled : answer->settlements) {
      if (!settled.refusal) accepted_.push_back({settled.client, round_.round.number});
    }
    hub_.verdict(place.client, true, "");
    settle_sum(place, std::move(answer->sum), std::move(answer->settlements));
  }

  void refuse(Place& place, const std::string& reason) {
    hub_.verdict(place.client, false, reason);
    if (!by_sums_) return settle(place, nullptr, reason);
    std::vector<Settlement> none;
    for (const AskedClient& asked : place.asked) none.push_back({.client = asked.client, .refusal = reason});
    settle_sum(place, {}, std::move(none));
  }

  // Sums are merged in the order of the places, whoever is first; what became of the clients is told when all is known.
  void settle_sum(Place& place, std::optional<Sum> sum, std::vector<Settlement> settlements) {
    place.status = Status::settled;
    for (std::size_t i = 0; i < settlements.size(); ++i) settlements_[place.positions[i]] = std::move(settlements[i]);
    if (sum) sums_.emplace(place_of_.at(place.client), std::move(*sum));
    const std::size_t end = first_open();
    std::vector<Settlement> later;
    while (!sums_.empty() && sums_.begin()->first < end) {
      round_.fold.push_block(sums_.begin()->second, later);
      sums_.erase(sums_.begin());
    }
  }

  // Never waits: only positions within the window are taken, and refusals before it need no memory.
  void settle(Place& place, std::unique_ptr<Answer> answer, std::optional<std::string> refusal) {
    place.status = Status::settled;
    const std::size_t position = place.positions.front();
    if (refusal) {
      held_refusals_[position] = *refusal;
    } else {
      round_.fold.push(position, std::move(answer), {});
    }
    push_refusals();
  }

  // A refusal far ahead of the fold would wait in push(); it is handed over when its turn is near.
  void push_refusals() {
    const std::size_t end = first_open() + rules_.window;
    while (!held_refusals_.empty() && held_refusals_.begin()->first < end) {
      const auto first = held_refusals_.begin();
      round_.fold.push(first->first, nullptr, std::move(first->second));
      held_refusals_.erase(first);
    }
  }

  Hub& hub_;
  const Log& log_;
  RoundRules rules_;
  const RoundInProgress& round_;
  std::vector<Place> places_;
  std::map<std::size_t, std::size_t> place_of_;  // by the client that answers
  std::size_t next_ = 0;                         // the first place that is not settled
  std::map<std::size_t, std::string> held_refusals_;
  bool by_sums_ = false;                 // a relay takes part
  std::map<std::size_t, Sum> sums_;      // of places whose turn has not come
  std::vector<Settlement> settlements_;  // by position
  std::vector<Counted> accepted_;
  Clock::time_point began_ = Clock::now();
  bool said_late_ = false;
};

}  // namespace

Played play_round(Hub& hub, const Log& log, const RoundRules& rules, const RoundInProgress& round,
                  const std::map<std::size_t, std::size_t>& last_accepted, const std::function<bool()>& outdated) {
  Play play(hub, log, rules, round, last_accepted);
  play.run(outdated);
  return {play.accepted(), play.turns()};
}

void NetworkExecutor::run(const RoundInProgress& round) {
  const std::size_t number = round.round.number;
  const auto last_accepted = journal_.begin_round(number);
  hub_.open_round(number, round.round.cohort.size(), round.invitation(0).seed, round.round.broadcast);
  seed_ = round.invitation(0).seed;
  Played played = play_round(hub_, log_, rules_, round, last_accepted);
  turns_ = std::move(played.turns);
  journal_.accepted(number, played.accepted);
  hub_.close_round();
}

std::optional<ClientResults> NetworkExecutor::survey(const Broadcast& broadcast) {
  const auto last_accepted = journal_.begin_round(broadcast.number() + 1);
  hub_.open_test(seed_, broadcast);
  ClientResults results(hub_.clients());
  std::set<std::size_t> waiting;
  const auto ask = [&](std::size_t client) {
    const auto last = last_accepted.find(client);
    if (hub_.invite(client, last == last_accepted.end() ? 0 : last->second)) waiting.insert(client);
  };
  for (const std::size_t client : hub_.members()) ask(client);
  const auto until = Clock::now() + seconds(rules_.deadline);
  while (!waiting.empty() && (rules_.deadline == 0.0 || Clock::now() < until)) {
    auto event = hub_.next(Clock::now() + 200ms);
    if (hub_.stopped()) throw Stopped(fmt::format("stopped after round {}; start again to go on", broadcast.number()));
    if (!event) continue;
    if (event->kind == Event::Kind::joined) {
      ask(event->client);
      continue;
    }
    if (event->kind == Event::Kind::tested) results.at(event->client) = std::move(event->result);
    waiting.erase(event->client);  // it has answered, or will not
  }
  hub_.close_round();
  return results;
}

}  // namespace parley::wire
