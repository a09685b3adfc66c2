#include "parley/wire/hub.h"

#include <algorithm>
#include <set>

#include "parley/base/errors.h"
#include "parley/wire/compression.h"
#include "parley/wire/facts.h"
#include "parley/wire/tested.h"

namespace parley::wire {
namespace {

using namespace std::chrono_literals;

// A node beats every five seconds (node.cc).
constexpr auto kSilence = 30s;

template <class Fill>
ToNode message(Fill fill) {
  auto made = std::make_shared<pb::ToNode>();
  fill(*made);
  return made;
}

// Names go into logs, tables and file names.
bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
}

bool stands_for(const Member& member, const std::vector<std::size_t>& relayed, std::size_t client) {
  return member.client == client || std::ranges::find(relayed, client) != relayed.end();
}

std::vector<ToNode> chunks_of(std::size_t round, const Bytes& bytes, bool pack) {
  const std::string_view plain(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<ToNode> chunks;
  for (std::size_t at = 0; at < plain.size(); at += kChunk) {
    chunks.push_back(
        message([&](pb::ToNode& to) { fill(*to.mutable_chunk(), round, at, plain.substr(at, kChunk), pack); }));
  }
  return chunks;
}

}  // namespace

Hub::Hub(JoinTerms terms, std::size_t longest_answer, Journal& journal, const Log& log, Revoked revoked,
         std::function<std::size_t(std::size_t)> longest_folded)
    : terms_(std::move(terms)),
      longest_answer_(longest_answer),
      journal_(journal),
      log_(log),
      revoked_(std::move(revoked)),
      longest_folded_(std::move(longest_folded)) {
  const std::vector<Member> members = journal_.members();
  for (const Member& member : members) {
    seats_.push_back({.member = member, .relayed = relayed_from(member.moments)});
  }
  if (!seats_.empty()) {
    complete_ = true;
    note_sizes();
    scales_ = agreed_scales(members, terms_.moments, terms_.scales);
  }
}

void Hub::note_sizes() {
  sizes_.resize(terms_.sizes.size());
  for (const Seat& seat : seats_) {
    if (seat.relayed.empty()) sizes_.at(seat.member.client) = seat.member.examples;
    for (const std::size_t client : seat.relayed) sizes_.at(client) = terms_.sizes.at(client);
  }
}

// Clients that have come, themselves or by a relay.
std::size_t Hub::seated() const {
  std::size_t count = 0;
  for (const Seat& seat : seats_) count += std::max<std::size_t>(seat.relayed.size(), 1);
  return count;
}

std::size_t Hub::expected() const {
  if (!terms_.rows) return terms_.sizes.size();
  return static_cast<std::size_t>(std::ranges::count_if(terms_.sizes, [](std::size_t size) { return size > 0; }));
}

// --- Links ---

void Hub::opened(const std::shared_ptr<Link>& link) {
  const std::lock_guard lock(mutex_);
  if (goodbye_) {
    link->send(goodbye_);
    link->close();
    return;
  }
  visitors_[link.get()] = {.link = link, .name = "", .last_seen = Clock::now()};
}

void Hub::received(const std::shared_ptr<Link>& link, const pb::ToServer& message) {
  const std::lock_guard lock(mutex_);
  if (const auto found = visitors_.find(link.get()); found != visitors_.end()) {
    Visitor& visitor = found->second;
    visitor.last_seen = Clock::now();
    if (message.has_hello() && visitor.name.empty()) return hello(visitor, message.hello());
    if (message.has_facts() && !visitor.name.empty()) return facts(visitor, message.facts());
    if (message.has_decline()) return declined(visitor, message.decline().reason());
    if (message.has_beat()) return link->send(wire::message([](pb::ToNode& to) { to.mutable_beat(); }));
    return refuse(link, visitor.name, "this message is out of order; use the same version of parley at both ends",
                  true);
  }
  Seat* seat = seat_of(link.get());
  if (seat == nullptr) return;  // refused or replaced; what it still sends counts for nothing
  seat->last_seen = Clock::now();
  seat->seen_at = timestamp();
  from_member(*seat, message);
}

void Hub::closed(const std::shared_ptr<Link>& link) {
  const std::lock_guard lock(mutex_);
  visitors_.erase(link.get());
  if (Seat* seat = seat_of(link.get())) leave(*seat, "the connection ended");
}

void Hub::look_after() {
  const std::lock_guard lock(mutex_);
  const auto silent_since = Clock::now() - kSilence;
  for (auto& [key, visitor] : visitors_) {
    if (visitor.last_seen < silent_since) visitor.link->cut();
  }
  for (Seat& seat : seats_) {
    if (!seat.link) continue;
    const auto link = seat.link;
    if (is_revoked(*link)) {
      leave(seat, "its certificate was revoked");
      refuse(link, seat.member.name, "its certificate was revoked", true);
    } else if (seat.last_seen < silent_since) {
      leave(seat, "it was silent for too long");
      link->cut();
    }
  }
}

// --- Joining ---

void Hub::hello(Visitor& visitor, const pb::Hello& hello) {
  const std::string proved = visitor.link->identity();
  const std::string name = proved.empty() ? hello.name() : proved;
  const auto link = visitor.link;
  if (hello.protocol() != kProtocol) {
    return refuse(link, name,
                  fmt::format("it speaks version {} of the protocol, this server version {}; use the same "
                              "version of parley at both ends",
                              hello.protocol(), kProtocol),
                  true);
  }
  if (is_revoked(*link)) return refuse(link, name, "its certificate was revoked", true);
  if (!is_name(name)) {
    return refuse(link, "", "its name must be up to 64 letters, digits, '.', '_' or '-'; use --name", true);
  }
  if (!proved.empty() && !hello.name().empty() && hello.name() != proved) {
    return refuse(link, proved, fmt::format("it calls itself '{}', but its certificate is {}'s", hello.name(), proved),
                  true);
  }
  visitor.name = name;
  visitor.packs = terms_.compress && std::ranges::find(hello.compressions(), kZstd) != hello.compressions().end();
  link->send(message([&](pb::ToNode& to) {
    if (visitor.packs) to.mutable_terms()->set_compression(kZstd);
    to.mutable_terms()->set_config(terms_.config);
    to.mutable_terms()->set_rows(terms_.rows);
    to.mutable_terms()->set_measure_inputs(terms_.moments.inputs > 0);
    to.mutable_terms()->set_measure_targets(terms_.moments.targets > 0);
  }));
}

std::string Hub::reason_to_refuse(const Visitor& visitor, const pb::Facts& facts) const {
  if (std::string why = difference(terms_.agreement, agreement_in(facts)); !why.empty()) return why;
  if (facts.examples() == 0) return "it holds no examples";
  const auto known = std::ranges::find(seats_, visitor.name, [](const Seat& seat) { return seat.member.name; });
  if (known == seats_.end() && complete_) {
    return fmt::format("the federation is complete with {} nodes, and '{}' is none of them", seats_.size(),
                       visitor.name);
  }
  if (known != seats_.end() && known->member.examples != facts.examples()) {
    return fmt::format("it holds {} examples, and joined with {}; a federation's data stay what they are",
                       facts.examples(), known->member.examples);
  }
  if (!terms_.rows) {
    if (facts.relayed_size() > 0) return "it is a relay, and nodes with data of their own join the server itself";
    if (std::string fault = fault_of(moments_in(facts), terms_.moments); !fault.empty()) return fault;
    if (known != seats_.end() && known->member.moments != to_text(facts)) {
      return "its data have other moments than when it joined; a federation's data stay what they are";
    }
    return "";
  }
  if (facts.relayed_size() > 0) return reason_to_refuse_relay(visitor, facts);
  if (facts.client() >= terms_.sizes.size()) {
    return fmt::format("there is no client {}; the partition has {}", facts.client(), terms_.sizes.size());
  }
  if (terms_.sizes[facts.client()] == 0) return fmt::format("client {} is not one of those here", facts.client());
  if (facts.examples() != terms_.sizes[facts.client()]) {
    return fmt::format("client {} has {} examples here and {} there; check that both have the same data",
                       facts.client(), terms_.sizes[facts.client()], facts.examples());
  }
  if (known != seats_.end() && known->member.client != facts.client()) {
    return fmt::format("'{}' is client {}, not {}", visitor.name, known->member.client, facts.client());
  }
  return other_holder(facts.client(), visitor.name);
}

std::string Hub::other_holder(std::size_t client, const std::string& name) const {
  const auto holder =
      std::ranges::find_if(seats_, [&](const Seat& seat) { return stands_for(seat.member, seat.relayed, client); });
  if (holder == seats_.end() || holder->member.name == name) return "";
  return fmt::format("client {} is '{}' already", client, holder->member.name);
}

std::string Hub::reason_to_refuse_relay(const Visitor& visitor, const pb::Facts& facts) const {
  if (!terms_.no_relays.empty()) return terms_.no_relays;
  std::size_t examples = 0;
  std::set<std::size_t> named;
  for (const std::size_t client : facts.relayed()) {
    if (client >= terms_.sizes.size() || terms_.sizes[client] == 0) {
      return fmt::format("it stands for client {}, and no such client has examples here", client);
    }
    if (!named.insert(client).second) return fmt::format("it names client {} twice", client);
    if (std::string other = other_holder(client, visitor.name); !other.empty()) return other;
    examples += terms_.sizes[client];
  }
  if (facts.client() != facts.relayed(0) || facts.examples() != examples) {
    return fmt::format("its clients have {} examples here and {} there; check that both have the same data", examples,
                       facts.examples());
  }
  const auto known = std::ranges::find(seats_, visitor.name, [](const Seat& seat) { return seat.member.name; });
  if (known != seats_.end() && known->member.moments != to_text(facts)) {
    return fmt::format("'{}' joined for other clients; start it with those it had", visitor.name);
  }
  return "";
}

void Hub::facts(Visitor& visitor, const pb::Facts& facts) {
  if (const std::string reason = reason_to_refuse(visitor, facts); !reason.empty()) {
    return refuse(visitor.link, visitor.name, reason, true);
  }
  const Visitor seated = visitor;
  visitors_.erase(seated.link.get());
  seat(seated, facts);
}

// It has seen the terms, and cannot or will not take part.
void Hub::declined(const Visitor& visitor, const std::string& reason) {
  log_.say("declined", {{"node", visitor.name}, {"reason", reason}});
  audit("declined", visitor.name, last_round_, reason);
  const auto link = visitor.link;
  visitors_.erase(link.get());
  link->close();
}

void Hub::seat(const Visitor& visitor, const pb::Facts& facts) {
  auto found = std::ranges::find(seats_, visitor.name, [](const Seat& seat) { return seat.member.name; });
  if (found == seats_.end()) {
    seats_.push_back({.member = {visitor.name, facts.client(), facts.examples(), to_text(facts)},
                      .relayed = {facts.relayed().begin(), facts.relayed().end()}});
    found = std::prev(seats_.end());
  } else if (found->link) {
    const auto old = found->link;
    leave(*found, "it came again");
    refuse(old, visitor.name, "another connection with this name took its place", true);
  }
  found->link = visitor.link;
  found->packs = visitor.packs;
  found->last_seen = visitor.last_seen;
  found->seen_at = timestamp();
  found->doing = "waiting";
  log_.say("joined", {{"node", visitor.name}, {"examples", std::to_string(facts.examples())}});
  audit("joined", visitor.name, last_round_, fmt::format("{} examples", facts.examples()));
  if (complete_) {
    welcome(*found);
    post({.kind = Event::Kind::joined, .client = found->member.client});
  } else if (seated() == expected()) {
    complete();
  }
  changed_.notify_all();
}

// Numbers by name, so that it does not matter who came first.
void Hub::complete() {
  const auto before = [&](const Seat& a, const Seat& b) {
    return terms_.rows ? a.member.client < b.member.client : a.member.name < b.member.name;
  };
  std::ranges::sort(seats_, before);
  std::vector<Member> members;
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    Member& member = seats_[i].member;
    if (!terms_.rows) member.client = i;
    members.push_back(member);
  }
  note_sizes();
  note([&] { journal_.remember(members); });
  scales_ = agreed_scales(members, terms_.moments, terms_.scales);
  complete_ = true;
  log_.say("complete", {{"nodes", std::to_string(seats_.size())}});
  audit("complete", "", 0, fmt::format("{} nodes", seats_.size()));
  for (Seat& seat : seats_) welcome(seat);
}

void Hub::welcome(Seat& seat) {
  send(seat, message([&](pb::ToNode& to) {
         to.mutable_welcome()->set_client(seat.member.client);
         for (const std::size_t size : sizes_) to.mutable_welcome()->add_sizes(size);
         if (terms_.rows) return;
         fill(*to.mutable_welcome()->mutable_inputs(), scales_.inputs);
         fill(*to.mutable_welcome()->mutable_targets(), scales_.targets);
       }));
}

void Hub::refuse(std::shared_ptr<Link> link, std::string name, std::string reason, bool final) {
  visitors_.erase(link.get());
  ++strangers_refused_;
  link->send(message([&](pb::ToNode& to) {
    to.mutable_refusal()->set_reason(reason);
    to.mutable_refusal()->set_final(final);
  }));
  link->close();
  log_.say("refused", {{"node", name}, {"reason", reason}});
  audit("refused", name, last_round_, reason);
}

void Hub::leave(Seat& seat, const std::string& reason) {
  seat.link = nullptr;
  seat.doing = "away";
  seat.incoming.reset();
  seat.offered = false;
  seat.invited = 0;
  log_.say("left", {{"node", seat.member.name}, {"reason", reason}});
  audit("left", seat.member.name, last_round_, reason);
  if (complete_) post({.kind = Event::Kind::left, .client = seat.member.client});
  changed_.notify_all();
}

// --- What members send ---

void Hub::from_member(Seat& seat, const pb::ToServer& message) {
  if (message.has_beat()) return send(seat, wire::message([](pb::ToNode& to) { to.mutable_beat(); }));
  if (message.has_offer()) return offer(seat, message.offer());
  if (message.has_chunk()) return chunk(seat, message.chunk());
  if (message.has_tested()) return tested(seat, message.tested());
  if (message.has_decline()) {
    if (seat.invited == 0 || message.decline().round() != seat.invited) return;
    return post({.kind = Event::Kind::spoiled, .client = seat.member.client, .reason = message.decline().reason()});
  }
  spoil(seat, "it sent a message that is out of order");
}

void Hub::offer(Seat& seat, const pb::Offer& offer) {
  if (seat.invited == 0 || offer.round() != seat.invited || is_testing()) {
    const std::string reason =
        seat.invited > 0 && !is_testing()
            ? fmt::format("it answers round {}, and round {} is open", offer.round(), seat.invited)
            : fmt::format("it answers round {}, which is closed", offer.round());
    ++seat.refusals;
    seat.refused = reason;
    log_.say("late", {{"node", seat.member.name}, {"reason", reason}});
    audit("late", seat.member.name, offer.round(), reason);
    return send(seat, message([&](pb::ToNode& to) {
                  to.mutable_verdict()->set_round(offer.round());
                  to.mutable_verdict()->set_reason(reason);
                }));
  }
  if (seat.offered) return spoil(seat, fmt::format("it answered round {} twice", offer.round()));
  const std::size_t longest = seat.relayed.empty() ? longest_answer_ : longest_folded_(seat.relayed.size());
  if (offer.length() == 0 || offer.length() > longest) {
    return spoil(seat, fmt::format("it announced an answer of {} bytes; this federation's have at most {}",
                                   offer.length(), longest));
  }
  if (offer.forgot()) {
    const std::string lost =
        "what it remembered is gone (was its --state folder lost?); it goes on as one that never took part";
    log_.say("forgot", {{"node", seat.member.name}, {"reason", lost}});
    audit("forgot", seat.member.name, offer.round(), lost);
  }
  Event event{.kind = Event::Kind::offered,
              .client = seat.member.client,
              .length = offer.length(),
              .epochs = offer.epochs(),
              .seconds = offer.seconds()};
  try {
    event.result = result_in(offer.own());
  } catch (const InputError& error) {
    return spoil(seat, error.what());
  }
  seat.offered = true;
  seat.doing = "has an answer";
  post(std::move(event));
}

void Hub::tested(Seat& seat, const pb::Tested& tested) {
  if (!is_testing() || seat.invited != tested.round()) return;  // was on its way when nobody waited any more
  try {
    post({.kind = Event::Kind::tested, .client = seat.member.client, .result = result_in(tested)});
  } catch (const InputError& error) {
    return spoil(seat, error.what());
  }
  seat.invited = 0;
  seat.doing = "waiting";
}

void Hub::chunk(Seat& seat, const pb::Chunk& chunk) {
  if (seat.invited == 0 || chunk.round() != seat.invited) return;  // was on its way when the round closed
  if (!seat.incoming) return spoil(seat, "it sent an answer that it was not asked for");
  try {
    std::string unpacked;
    const std::string_view plain = plain_bytes(chunk, seat.packs, unpacked);
    seat.incoming->add(chunk.offset(), plain);
    seat.bytes_in += plain.size();
  } catch (const InputError& error) {
    return spoil(seat, error.what());
  }
  seat.line_in += chunk.bytes().size();
  if (!seat.incoming->complete()) return;
  post({.kind = Event::Kind::answered, .client = seat.member.client, .bytes = seat.incoming->take()});
  seat.incoming.reset();
}

// The stream cannot be trusted any more: what comes next in it may be the rest of what was wrong.
void Hub::spoil(Seat& seat, const std::string& reason) {
  post({.kind = Event::Kind::spoiled, .client = seat.member.client, .reason = reason});
  const auto link = seat.link;
  leave(seat, reason);
  refuse(link, seat.member.name, reason, false);
}

// --- The server ---

std::optional<std::vector<Member>> Hub::await_complete() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return complete_ || stopped_ || !journal_failure_.empty(); });
  require_journal();
  if (stopped_) return {};
  std::vector<Member> members;
  for (const Seat& seat : seats_) members.push_back(seat.member);
  return members;
}

void Hub::open_round(std::size_t number, std::size_t cohort, std::uint64_t seed, const Broadcast& broadcast,
                     bool keep) {
  const Bytes bytes = broadcast.encode();
  std::vector<ToNode> chunks = chunks_of(number, bytes, false), packed;
  if (terms_.compress) packed = chunks_of(number, bytes, true);
  const std::lock_guard lock(mutex_);
  round_ = {number, cohort, seed, bytes.size(), std::move(chunks), std::move(packed)};
  last_round_ = number;
  if (keep) return;
  events_.clear();  // of the round before; invite() sees who is here
  for (Seat& seat : seats_) {
    seat.offered = false;
    seat.invited = 0;
    seat.incoming.reset();
  }
}

void Hub::open_test(std::uint64_t seed, const Broadcast& broadcast) {
  open_round(broadcast.number(), 0, seed, broadcast);
  const std::lock_guard lock(mutex_);
  round_->test = true;
}

bool Hub::invite(std::size_t client, std::size_t last_accepted, std::size_t steps, bool test_own) {
  const std::lock_guard lock(mutex_);
  return send_invitation(seat_of(client), [&](pb::Invitation& invitation) {
    invitation.set_last_accepted(last_accepted);
    invitation.set_steps(steps);
    invitation.set_test_own(test_own);
  });
}

bool Hub::invite_relay(std::size_t first, std::span<const AskedClient> asked) {
  const std::lock_guard lock(mutex_);
  return send_invitation(seat_of(first), [&](pb::Invitation& invitation) {
    for (const AskedClient& one : asked) {
      auto& relayed = *invitation.add_relayed();
      relayed.set_client(one.client);
      relayed.set_last_accepted(one.last_accepted);
    }
  });
}

bool Hub::send_invitation(Seat& seat, const std::function<void(pb::Invitation&)>& more) {
  if (!seat.link) return false;
  seat.doing = round_->test ? "testing" : "training";
  seat.offered = false;
  seat.incoming.reset();
  seat.invited = round_->number;
  send(seat, message([&](pb::ToNode& to) {
         pb::Invitation& invitation = *to.mutable_invitation();
         invitation.set_round(round_->number);
         invitation.set_client(seat.member.client);
         invitation.set_cohort(round_->cohort);
         invitation.set_seed(round_->seed);
         invitation.set_length(round_->length);
         invitation.set_test(round_->test);
         more(invitation);
       }));
  for (const ToNode& chunk : seat.packs ? round_->packed : round_->chunks) send(seat, chunk);
  return true;
}

std::size_t Hub::answers_for(std::size_t client) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::find_if(seats_, [&](const Seat& seat) { return stands_for(seat.member, seat.relayed, client); })
      ->member.client;
}

bool Hub::is_relay(std::size_t client) const {
  const std::lock_guard lock(mutex_);
  return !seat_of(client).relayed.empty();
}

std::optional<Event> Hub::next(Clock::time_point until) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, until, [&] { return stopped_ || !events_.empty() || !journal_failure_.empty(); });
  require_journal();
  if (stopped_ || events_.empty()) return {};
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void Hub::take(std::size_t client, std::size_t length) {
  const std::lock_guard lock(mutex_);
  Seat& seat = seat_of(client);
  if (!seat.link) return;
  seat.incoming.emplace(length);
  seat.doing = "sending";
  send(seat, message([&](pb::ToNode& to) { to.mutable_take()->set_round(seat.invited); }));
}

void Hub::verdict(std::size_t client, bool accepted, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  Seat& seat = seat_of(client);
  const std::size_t round = seat.invited > 0 ? seat.invited : round_->number;
  seat.invited = 0;
  ++(accepted ? seat.accepted : seat.refusals);
  if (!accepted) seat.refused = fmt::format("round {}: {}", round, reason);
  if (seat.link) seat.doing = "waiting";
  const char* event = accepted ? "accepted" : "answer refused";
  log_.say(event, {{"node", seat.member.name}, {"round", std::to_string(round)}, {"reason", reason}});
  audit(event, seat.member.name, round, reason);
  send(seat, message([&](pb::ToNode& to) {
         to.mutable_verdict()->set_round(round);
         to.mutable_verdict()->set_accepted(accepted);
         to.mutable_verdict()->set_reason(reason);
       }));
}

void Hub::close_round() {
  const std::lock_guard lock(mutex_);
  round_.reset();
  for (Seat& seat : seats_) {
    seat.incoming.reset();
    seat.invited = 0;
  }
}

bool Hub::finish(bool finished, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  goodbye_ = message([&](pb::ToNode& to) {
    to.mutable_goodbye()->set_finished(finished);
    to.mutable_goodbye()->set_reason(reason);
  });
  for (Seat& seat : seats_) {
    if (!seat.link) continue;
    send(seat, goodbye_);
    seat.link->close();
  }
  for (auto& [key, visitor] : visitors_) {
    visitor.link->send(goodbye_);
    visitor.link->close();
  }
  return std::ranges::all_of(seats_, [](const Seat& seat) { return static_cast<bool>(seat.link); });
}

bool Hub::deserted() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::none_of(seats_, [](const Seat& seat) { return static_cast<bool>(seat.link); }) &&
         visitors_.empty();
}

void Hub::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

bool Hub::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

Scales Hub::scales() const {
  const std::lock_guard lock(mutex_);
  return scales_;
}

std::vector<std::size_t> Hub::members() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::size_t> members;
  for (const Seat& seat : seats_) members.push_back(seat.member.client);
  return members;
}

std::vector<std::size_t> Hub::sizes() const {
  const std::lock_guard lock(mutex_);
  return sizes_;
}

std::size_t Hub::examples_of(std::size_t client) const {
  const std::lock_guard lock(mutex_);
  return seat_of(client).member.examples;
}

Json Hub::status() const {
  const std::lock_guard lock(mutex_);
  Json nodes = Json::array();
  for (const Seat& seat : seats_) {
    nodes.push_back({{"name", seat.member.name},
                     {"client", seat.member.client},
                     {"examples", seat.member.examples},
                     {"connected", static_cast<bool>(seat.link)},
                     {"doing", seat.doing},
                     {"last_seen", seat.seen_at},
                     {"bytes_in", seat.bytes_in},
                     {"bytes_out", seat.bytes_out},
                     {"line_in", seat.line_in},
                     {"line_out", seat.line_out},
                     {"accepted", seat.accepted},
                     {"refused", seat.refusals},
                     {"last_refusal", seat.refused},
                     {"relayed", seat.relayed}});
  }
  return {{"round", last_round_},
          {"expected", expected()},
          {"complete", complete_},
          {"connections_refused", strangers_refused_},
          {"nodes", std::move(nodes)}};
}

// --- Helpers; the lock is held ---

void Hub::audit(std::string_view event, std::string_view node, std::size_t round, std::string_view detail) {
  note([&] { journal_.audit(event, node, round, detail); });
}

void Hub::note(const std::function<void()>& write) {
  try {
    write();
  } catch (const Error& error) {
    if (journal_failure_.empty()) log_.say("journal", {{"reason", error.what()}});
    journal_failure_ = error.what();
    changed_.notify_all();
  }
}

void Hub::require_journal() const {
  if (!journal_failure_.empty()) throw RunError(journal_failure_);
}

void Hub::send(Seat& seat, ToNode message) {
  if (!seat.link) return;
  if (message->has_chunk()) {
    const pb::Chunk& chunk = message->chunk();
    seat.line_out += chunk.bytes().size();
    seat.bytes_out += chunk.unpacked() > 0 ? chunk.unpacked() : chunk.bytes().size();
  }
  seat.link->send(std::move(message));
}

void Hub::post(Event event) {
  events_.push_back(std::move(event));
  changed_.notify_all();
}

Hub::Seat* Hub::seat_of(const Link* link) {
  const auto found = std::ranges::find(seats_, link, [](const Seat& seat) { return seat.link.get(); });
  return found == seats_.end() ? nullptr : &*found;
}

const Hub::Seat& Hub::seat_of(std::size_t client) const {
  return *std::ranges::find(seats_, client, [](const Seat& seat) { return seat.member.client; });
}

Hub::Seat& Hub::seat_of(std::size_t client) {
  return const_cast<Seat&>(std::as_const(*this).seat_of(client));
}

}  // namespace parley::wire
