#include "parley/wire/network_errands.h"

#include <algorithm>

namespace parley::wire {

using namespace std::chrono_literals;

void NetworkErrands::ask(const Invitation& invitation) {
  if (!newest_ || newest_->number() != invitation.broadcast.number()) {
    newest_ = invitation.broadcast;
    last_accepted_ = journal_.begin_round(newest_->number());
    hub_.open_round(newest_->number(), invitation.cohort, invitation.seed, *newest_, true);
  }
  invite(invitation.client, places_.insert_or_assign(invitation.client, Place{.sent = *newest_}).first->second);
}

void NetworkErrands::invite(std::size_t client, Place& place) {
  place.sent = *newest_;
  const auto last = last_accepted_.find(client);
  place.status = hub_.invite(client, last == last_accepted_.end() ? 0 : last->second) ? Status::training : Status::away;
}

void NetworkErrands::listen() {
  auto event = hub_.next(Clock::now() + 200ms);
  if (hub_.stopped()) throw Stopped(fmt::format("stopped in round {}; start again to go on", newest_->number()));
  if (event) handle(*event);
  for (auto& [client, place] : places_) {
    if (place.status == Status::sending && Clock::now() > place.until) refuse(place, "its answer did not come in time");
  }
}

void NetworkErrands::handle(Event& event) {
  const auto found = places_.find(event.client);
  if (found == places_.end()) return;  // not at work
  Place& place = found->second;
  if (place.status == Status::refused || place.status == Status::arrived) return;
  switch (event.kind) {
    case Event::Kind::joined: return invite(event.client, place);
    case Event::Kind::left:
      // Whose answer has been asked for is not waited for again: the others of the buffer would wait too.
      if (place.status == Status::sending) return refuse(place, "it left before its answer was complete");
      place.status = Status::away;
      return;
    case Event::Kind::spoiled: return refuse(place, event.reason);
    case Event::Kind::tested: return;  // nobody was asked to
    case Event::Kind::offered:
      if (place.status != Status::training) return;
      place.status = Status::offered;
      place.arrival = ++arrivals_;
      place.length = event.length;
      place.epochs = event.epochs;
      return;
    case Event::Kind::answered:
      if (place.status != Status::sending) return;
      place.status = Status::arrived;
      place.bytes = std::move(event.bytes);
      return;
  }
}

void NetworkErrands::refuse(Place& place, const std::string& reason) {
  if (place.status != Status::offered && place.status != Status::sending) place.arrival = ++arrivals_;
  place.status = Status::refused;
  place.reason = reason;
}

std::vector<std::pair<std::size_t, std::size_t>> NetworkErrands::finished() const {
  std::vector<std::pair<std::size_t, std::size_t>> done;
  for (const auto& [client, place] : places_) {
    if (place.status == Status::offered || place.status == Status::refused) done.push_back({place.arrival, client});
  }
  std::ranges::sort(done);
  return done;
}

std::vector<Errands::Ready> NetworkErrands::await(std::size_t wanted) {
  const auto began = Clock::now();
  const std::size_t least = std::clamp<std::size_t>(rules_.quorum, 1, wanted);
  const auto late = [&] {
    return rules_.deadline > 0.0 && Clock::now() > began + std::chrono::duration<double>(rules_.deadline);
  };
  auto done = finished();
  while (done.size() < wanted && !(done.size() >= least && late())) {
    listen();
    done = finished();
  }
  done.resize(std::min(done.size(), wanted));
  std::vector<Ready> ready;
  for (const auto& [arrival, client] : done) ready.push_back({client, places_.at(client).sent});
  return ready;
}

// Never more than a window of answers is here at a time.
void NetworkErrands::hand_over(std::size_t round, std::span<const Ready> order, const Admit& admit, OrderedFold& fold) {
  std::vector<Counted> accepted;
  std::size_t asked = 0;
  for (std::size_t position = 0; position < order.size(); ++position) {
    for (; asked < std::min(order.size(), position + rules_.window); ++asked) {
      Place& place = places_.at(order[asked].client);
      if (place.status == Status::refused) continue;
      if (place.status != Status::offered) {
        refuse(place, "it left before its answer was taken");
        continue;
      }
      place.status = Status::sending;
      place.until = Clock::now() + time_to_send(place.length);
      hub_.take(order[asked].client, place.length);
    }
    const std::size_t client = order[position].client;
    Place& place = places_.at(client);
    while (place.status == Status::sending) listen();
    auto answer = fold.borrow();
    std::optional<std::string> refusal;
    if (place.status == Status::arrived) {
      try {
        const Sender sender{client, hub_.examples_of(client), place.epochs};
        read_answer(place.bytes, fold.schema(), place.sent, sender, rules_.uniform_weights, *answer);
        admit(position, answer->update);
        accepted.push_back({client, place.sent.number()});
      } catch (const RefusedUpdate& refused) {
        refusal = refused.what();
      }
    } else {
      refusal = place.reason;
    }
    hub_.verdict(client, !refusal, refusal.value_or(""));
    places_.erase(client);
    fold.push(position, std::move(answer), std::move(refusal));
  }
  journal_.accepted(round, accepted);
}

}  // namespace parley::wire
