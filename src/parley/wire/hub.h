// The nodes of a federation as their server knows them: who has joined and as whom, who is connected, what each sends.
// It keeps to the order of federation.proto and refuses what does not; what becomes of a round is NetworkExecutor's
// business.
//
// Order:    construct -> await_complete -> (open_round -> invite, next, take, verdict -> close_round)* -> finish.
//           Links come and go at any time.
// Threads:  opened(), received(), closed() and look_after() from any; the rest from the server's own.
// Failure:  what a node does wrong ends with a Refusal or a Verdict, a line in the log and one in the audit log, never
//           with an exception. await_complete() and next() throw RunError when the journal could not be written.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parley/store/run_folder.h"
#include "parley/wire/federation.pb.h"
#include "parley/wire/journal.h"
#include "parley/wire/log.h"
#include "parley/wire/protocol.h"
#include "parley/wire/worker.h"

namespace parley::wire {

namespace pb = parley::wire::v1;
using Clock = std::chrono::steady_clock;
using ToNode = std::shared_ptr<const pb::ToNode>;

// The server's end of one stream.
//
// Threads:  any.
class Link {
 public:
  virtual ~Link() = default;
  virtual void send(ToNode message) = 0;
  // Ends the stream once everything has been sent; cut() ends it at once.
  virtual void close() = 0;
  virtual void cut() = 0;
  // The name in the peer's certificate, which the peer has proved to own; empty without TLS.
  virtual std::string identity() const = 0;
  // The number of that certificate.
  virtual std::string serial() const = 0;
};

// What nodes join.
struct JoinTerms {
  std::string config;
  Agreement agreement;
  // With `rows`, a node holds what the partition deals to a client, and these are the sizes of all clients; those
  // without data do not take part. Otherwise there is a number for each node, and what it holds is for it to say.
  bool rows = true;
  std::vector<std::size_t> sizes;
  // Where nodes have data of their own: in whose moments all are standardised, and the scales of what is not.
  WantedMoments moments = {};
  Scales scales = {};
  // Chunks are packed by zstd, with nodes that can unpack them.
  bool compress = false;
  // Why no relay may stand for clients; empty: one may.
  std::string no_relays = {};
};

// What a node did, for whoever plays a round.
struct Event {
  enum class Kind { joined, left, offered, answered, tested, spoiled } kind;
  std::size_t client = 0;
  std::size_t length = 0;                   // offered
  double epochs = 0.0;                      // offered
  double seconds = 0.0;                     // offered: of training, by its clock
  Bytes bytes = {};                         // answered
  std::string reason = {};                  // spoiled: why there will be no answer
  std::optional<ClientResult> result = {};  // offered, tested: on its own test data
};

class Hub {
 public:
  // Whether the certificate with this number has been revoked, as of now.
  using Revoked = std::function<bool(const std::string& serial)>;

  // Journal and log must outlive it.
  // `longest_folded` says how long a relay's answer for so many clients can be.
  Hub(JoinTerms terms, std::size_t longest_answer, Journal& journal, const Log& log, Revoked revoked = {},
      std::function<std::size_t(std::size_t clients)> longest_folded = {});

  // --- For links ---
  void opened(const std::shared_ptr<Link>& link);
  void received(const std::shared_ptr<Link>& link, const pb::ToServer& message);
  void closed(const std::shared_ptr<Link>& link);
  // Every second or so: cuts links that have been silent for too long, or whose certificate has been revoked.
  void look_after();

  // --- For the server ---
  // The members, once all have joined at least once, by client number; nothing when stop() came first.
  std::optional<std::vector<Member>> await_complete();

  // `keep`: whoever still works on an earlier round goes on, and may answer that.
  void open_round(std::size_t number, std::size_t cohort, std::uint64_t seed, const Broadcast& broadcast,
                  bool keep = false);
  // Has the model of this broadcast tested, and nothing trained: who is invited answers with a tested event.
  void open_test(std::uint64_t seed, const Broadcast& broadcast);
  // Sends the open round to a client. False when it is not connected; a joined event will tell when it is.
  // `steps`: it may take at most so many; 0: as the settings say. `test_own`: it tests what training leaves, too.
  bool invite(std::size_t client, std::size_t last_accepted, std::size_t steps = 0, bool test_own = false);
  // The same for a relay, by the first of its clients; these of them are asked.
  bool invite_relay(std::size_t first, std::span<const AskedClient> asked);
  // Who answers for the client: itself, or the first client of the relay that stands for it.
  std::size_t answers_for(std::size_t client) const;
  bool is_relay(std::size_t client) const;
  // What happened next, or nothing by `until` or when stop() was called.
  std::optional<Event> next(Clock::time_point until);
  // Lets a client send the answer that it offered.
  void take(std::size_t client, std::size_t length);
  void verdict(std::size_t client, bool accepted, const std::string& reason);
  void close_round();
  // How numbers become what a model sees, at all nodes with data of their own; once the federation is complete.
  Scales scales() const;
  // The clients that are members of the complete federation, in order; and all that are numbered.
  std::vector<std::size_t> members() const;
  std::size_t clients() const { return terms_.sizes.size(); }
  // How many examples each has.
  std::vector<std::size_t> sizes() const;
  // With how many examples it joined.
  std::size_t examples_of(std::size_t client) const;

  // Tells all nodes that this is the end, of the run or only of this server, and whoever comes later. True when all
  // members were there to hear it.
  bool finish(bool finished, const std::string& reason);
  // Whether nobody is connected any more.
  bool deserted() const;
  void stop();
  bool stopped() const;

  // For people: one object with the round and the nodes.
  Json status() const;

 private:
  struct Visitor {
    std::shared_ptr<Link> link;
    std::string name;
    Clock::time_point last_seen;
    bool packs = false;  // chunks are packed, both ways
  };
  struct Seat {
    Member member;
    std::vector<std::size_t> relayed = {};  // of a relay: its clients, of whom member.client is the first
    std::shared_ptr<Link> link;             // null: not connected
    Clock::time_point last_seen{};
    std::string seen_at, doing = "away", refused;
    bool packs = false;                       // chunks are packed, both ways
    std::size_t bytes_in = 0, bytes_out = 0;  // of the encoding
    std::size_t line_in = 0, line_out = 0;    // the same as they went over the line
    std::size_t accepted = 0, refusals = 0;
    std::size_t invited = 0;  // the round that it may answer; 0: none
    bool offered = false;
    std::optional<Assembly> incoming;
  };
  struct Round {
    std::size_t number, cohort;
    std::uint64_t seed;
    std::size_t length;
    std::vector<ToNode> chunks;
    std::vector<ToNode> packed;  // the same for those who can unpack them; empty: nobody does
    bool test = false;           // it is to be tested, and nothing trained
  };

  void hello(Visitor& visitor, const pb::Hello& hello);
  void facts(Visitor& visitor, const pb::Facts& facts);
  void declined(const Visitor& visitor, const std::string& reason);
  std::string reason_to_refuse(const Visitor& visitor, const pb::Facts& facts) const;
  std::string reason_to_refuse_relay(const Visitor& visitor, const pb::Facts& facts) const;
  std::string other_holder(std::size_t client, const std::string& name) const;
  std::size_t seated() const;
  void note_sizes();
  bool send_invitation(Seat& seat, const std::function<void(pb::Invitation&)>& more);
  void seat(const Visitor& visitor, const pb::Facts& facts);
  void complete();
  void welcome(Seat& seat);
  void from_member(Seat& seat, const pb::ToServer& message);
  void offer(Seat& seat, const pb::Offer& offer);
  void chunk(Seat& seat, const pb::Chunk& chunk);
  void tested(Seat& seat, const pb::Tested& tested);
  bool is_testing() const { return round_ && round_->test; }
  // By value: what they are taken from is erased.
  void refuse(std::shared_ptr<Link> link, std::string name, std::string reason, bool final);
  void audit(std::string_view event, std::string_view node, std::size_t round, std::string_view detail);
  void note(const std::function<void()>& write);
  void require_journal() const;
  void spoil(Seat& seat, const std::string& reason);
  void leave(Seat& seat, const std::string& reason);
  void send(Seat& seat, ToNode message);
  void post(Event event);
  Seat* seat_of(const Link* link);
  Seat& seat_of(std::size_t client);
  const Seat& seat_of(std::size_t client) const;
  std::size_t expected() const;
  bool is_revoked(const Link& link) const { return revoked_ && revoked_(link.serial()); }

  const JoinTerms terms_;
  const std::size_t longest_answer_;
  Journal& journal_;
  const Log& log_;
  const Revoked revoked_;
  const std::function<std::size_t(std::size_t)> longest_folded_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<const Link*, Visitor> visitors_;
  std::vector<Seat> seats_;
  bool complete_ = false;
  std::vector<std::size_t> sizes_;  // of the complete federation
  Scales scales_;                   // likewise
  std::optional<Round> round_;
  std::size_t last_round_ = 0;
  std::deque<Event> events_;
  ToNode goodbye_;
  bool stopped_ = false;
  std::string journal_failure_;  // links come on threads where nothing may be thrown
  std::size_t strangers_refused_ = 0;
};

}  // namespace parley::wire
