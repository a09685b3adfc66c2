#include "parley/wire/network_executor.h"

#include <algorithm>
#include <cmath>

namespace parley::wire {
namespace {

using namespace std::chrono_literals;

// A transfer that brings less than this is a node that hangs.
constexpr double kSlowestBytesPerSecond = 16e3;
constexpr double kTransferSeconds = 30.0;

Clock::duration seconds(double count) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(count));
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
    for (const std::size_t client : round.round.cohort) {
      const auto last = last_accepted.find(client);
      position_[client] = places_.size();
      places_.push_back({.client = client, .last_accepted = last == last_accepted.end() ? 0 : last->second});
    }
    if (rules_.enough == 0) rules_.enough = places_.size();
    if (rules_.quorum == 0) rules_.quorum = (places_.size() + 1) / 2;
  }

  // Gives back whose answers count.
  std::vector<Counted> run() {
    for (Place& place : places_) invite(place);
    while (first_open() < places_.size()) {
      take_answers();
      give_up();
      if (first_open() == places_.size()) break;
      const auto event = hub_.next(Clock::now() + 200ms);
      if (hub_.stopped()) throw Stopped(fmt::format("stopped in round {}; start again to go on", round_.round.number));
      if (event) handle(*event);
    }
    return accepted_;
  }

 private:
  enum class Status { away, training, offered, sending, settled };
  struct Place {
    std::size_t client, last_accepted;
    Status status = Status::away;
    std::size_t length = 0;
    double epochs = 0.0;
    Clock::time_point until = {};  // sending: when that takes too long
  };

  std::size_t first_open() {
    while (next_ < places_.size() && places_[next_].status == Status::settled) ++next_;
    return next_;
  }

  void invite(Place& place) {
    place.status = hub_.invite(place.client, place.last_accepted) ? Status::training : Status::away;
  }

  void take_answers() {
    const std::size_t end = std::min(places_.size(), first_open() + rules_.window);
    for (std::size_t p = next_; p < end; ++p) {
      Place& place = places_[p];
      if (place.status != Status::offered) continue;
      place.status = Status::sending;
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
    const auto there = accepted_.size() + static_cast<std::size_t>(std::ranges::count_if(
                                              places_, [&](const Place& place) { return has_offered(place); }));
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
      if (place.status == Status::away || place.status == Status::training) refuse(place, reason);
    }
  }

  void handle(const Event& event) {
    const auto found = position_.find(event.client);
    if (found == position_.end()) return;  // not of this cohort
    Place& place = places_[found->second];
    if (place.status == Status::settled) return;
    switch (event.kind) {
      case Event::Kind::joined: return invite(place);
      case Event::Kind::left: place.status = Status::away; return;
      case Event::Kind::spoiled: return refuse(place, event.reason);
      case Event::Kind::offered:
        if (place.status != Status::training) return;
        place.status = Status::offered;
        place.length = event.length;
        place.epochs = event.epochs;
        return;
      case Event::Kind::answered:
        if (place.status == Status::sending) accept(place, event.bytes);
        return;
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
    accepted_.push_back({place.client, round_.round.number});
    hub_.verdict(place.client, true, "");
    settle(place, std::move(answer), {});
  }

  void refuse(Place& place, const std::string& reason) {
    hub_.verdict(place.client, false, reason);
    settle(place, nullptr, reason);
  }

  // Never waits: only positions within the window are taken, and refusals before it need no memory.
  void settle(Place& place, std::unique_ptr<Answer> answer, std::optional<std::string> refusal) {
    place.status = Status::settled;
    const std::size_t position = position_.at(place.client);
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
  std::map<std::size_t, std::size_t> position_;  // by client
  std::size_t next_ = 0;                         // the first position that is not settled
  std::map<std::size_t, std::string> held_refusals_;
  std::vector<Counted> accepted_;
  Clock::time_point began_ = Clock::now();
  bool said_late_ = false;
};

}  // namespace

void NetworkExecutor::run(const RoundInProgress& round) {
  const std::size_t number = round.round.number;
  const auto last_accepted = journal_.begin_round(number);
  hub_.open_round(number, round.round.cohort.size(), round.invitation(0).seed, round.round.broadcast);
  const auto accepted = Play(hub_, log_, rules_, round, last_accepted).run();
  journal_.accepted(number, accepted);
  hub_.close_round();
}

}  // namespace parley::wire
