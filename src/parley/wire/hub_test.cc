// The hub without a network: links that only remember what they were sent. Every refusal is tested from the node's end
// (what it is told) and the server's (what is logged for good).
#include "parley/wire/hub.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "parley/base/temp_folder.h"
#include "parley/wire/compression.h"

namespace parley::wire {
namespace {

const Agreement kAgreed{.layout = "L", .initial = "I", .settings = "S", .task = "T"};

class FakeLink final : public Link {
 public:
  explicit FakeLink(std::string identity = "", std::string serial = "")
      : identity_(std::move(identity)), serial_(std::move(serial)) {}
  void send(ToNode message) override { sent.push_back(std::move(message)); }
  void close() override { closed = true; }
  void cut() override { closed = true; }
  std::string identity() const override { return identity_; }
  std::string serial() const override { return serial_; }

  const pb::ToNode& last() const { return *sent.back(); }
  std::string refusal() const { return last().has_refusal() ? last().refusal().reason() : ""; }
  std::vector<ToNode> sent;
  bool closed = false;

 private:
  std::string identity_, serial_;
};

pb::ToServer hello_of(const std::string& name, std::uint32_t protocol = kProtocol) {
  pb::ToServer message;
  message.mutable_hello()->set_protocol(protocol);
  message.mutable_hello()->set_name(name);
  return message;
}

pb::ToServer facts_of(std::size_t client, std::size_t examples, const Agreement& agreement = kAgreed) {
  pb::ToServer message;
  pb::Facts& facts = *message.mutable_facts();
  facts.set_client(client);
  facts.set_examples(examples);
  facts.set_layout(agreement.layout);
  facts.set_initial(agreement.initial);
  facts.set_settings(agreement.settings);
  facts.set_task(agreement.task);
  return message;
}

pb::ToServer offer_of(std::size_t round, std::size_t length) {
  pb::ToServer message;
  message.mutable_offer()->set_round(round);
  message.mutable_offer()->set_length(length);
  return message;
}

pb::ToServer chunk_of(std::size_t round, std::size_t offset, const std::string& bytes) {
  pb::ToServer message;
  message.mutable_chunk()->set_round(round);
  message.mutable_chunk()->set_offset(offset);
  message.mutable_chunk()->set_bytes(bytes);
  return message;
}

// Two clients that hold 5 and 3 examples, and one without any.
struct HubTest : testing::Test {
  TempFolder folder;
  Log log;
  Journal journal{folder / "journal.sqlite", "run"};
  std::set<std::string> revoked;
  Hub hub = make(true);

  Hub make(bool rows) {
    return Hub({.config = "config", .agreement = kAgreed, .rows = rows, .sizes = rows ? Sizes{5, 0, 3} : Sizes(2)}, 100,
               journal, log, [this](const std::string& serial) { return revoked.contains(serial); });
  }
  using Sizes = std::vector<std::size_t>;

  std::shared_ptr<FakeLink> greet(Hub& to, const std::string& name, const std::string& identity = "",
                                  const std::string& serial = "") {
    auto link = std::make_shared<FakeLink>(identity, serial);
    to.opened(link);
    to.received(link, hello_of(name));
    return link;
  }
  std::shared_ptr<FakeLink> join(const std::string& name, std::size_t client, std::size_t examples) {
    auto link = greet(hub, name);
    hub.received(link, facts_of(client, examples));
    return link;
  }
  std::string last_audit(const std::string& event) const {
    std::string found;
    for (const auto& entry : read_audit(folder / "journal.sqlite")) {
      if (entry.event == event) found = entry.node + ": " + entry.detail;
    }
    return found;
  }
  static Broadcast broadcast(std::size_t number) {
    State state;
    state.add("theta", std::make_shared<const Layout>(std::vector<LayoutEntry>{{.name = "w", .shape = {2}}}), true,
              Flat{1.0f, 2.0f});
    return Broadcast(state, number);
  }
  std::optional<Event> event() { return hub.next(Clock::now()); }
};

TEST_F(HubTest, AFederationIsCompleteWhenAllWhoHoldDataHaveJoined) {
  const auto a = join("a", 0, 5);
  EXPECT_EQ(a->last().terms().config(), "config");
  const auto c = join("c", 2, 3);
  ASSERT_TRUE(a->last().has_welcome());
  EXPECT_EQ(c->last().welcome().client(), 2u);
  EXPECT_EQ(Sizes(c->last().welcome().sizes().begin(), c->last().welcome().sizes().end()), (Sizes{5, 0, 3}));
  const auto members = hub.await_complete();
  ASSERT_TRUE(members);
  EXPECT_EQ(members->size(), 2u);
}

TEST_F(HubTest, NodesWithDataOfTheirOwnAreNumberedByNameWhoeverComesFirst) {
  Hub own = make(false);
  const auto z = greet(own, "z");
  own.received(z, facts_of(0, 7));
  const auto a = greet(own, "a");
  own.received(a, facts_of(0, 9));
  EXPECT_EQ(a->last().welcome().client(), 0u);
  EXPECT_EQ(z->last().welcome().client(), 1u);
  EXPECT_EQ(Sizes(z->last().welcome().sizes().begin(), z->last().welcome().sizes().end()), (Sizes{9, 7}));
}

TEST_F(HubTest, WhoDoesNotFitIsToldWhyAndTheAuditLogToo) {
  const auto refused = [&](const std::string& name, const pb::ToServer& facts, const std::string& reason) {
    const auto link = greet(hub, name);
    hub.received(link, facts);
    EXPECT_NE(link->refusal().find(reason), std::string::npos) << link->refusal();
    EXPECT_TRUE(link->closed);
    EXPECT_NE(last_audit("refused").find(reason), std::string::npos);
  };
  refused("b", facts_of(0, 4), "client 0 has 5 examples here and 4 there");
  refused("b", facts_of(1, 0), "it holds no examples");
  refused("b", facts_of(9, 5), "there is no client 9");
  auto other = kAgreed;
  other.layout = "X";
  refused("b", facts_of(0, 5, other), "another layout");
  other = kAgreed;
  other.task = "X";
  refused("b", facts_of(0, 5, other), "its data are X; this federation trains on T");
  join("a", 0, 5);
  refused("b", facts_of(0, 5), "client 0 is 'a' already");
  refused("a", facts_of(2, 3), "it holds 3 examples, and joined with 5");
  join("c", 2, 3);
  refused("d", facts_of(2, 3), "the federation is complete with 2 nodes");
}

// Two nodes with data of their own, whose one channel and one target are standardised over both.
struct OwnDataTest : HubTest {
  JoinTerms terms = [] {
    JoinTerms made{.config = "config", .agreement = kAgreed, .rows = false, .sizes = Sizes(2)};
    made.agreement.classes = {"ill", "well"};
    made.agreement.columns = {"age"};
    made.moments = {.inputs = 1, .targets = 1};
    return made;
  }();
  Hub own{terms, 100, journal, log};

  static void add(google::protobuf::RepeatedPtrField<pb::Moments>& to, double mean, double variance) {
    to.Add()->set_mean(mean);
    to.rbegin()->set_variance(variance);
  }
  pb::ToServer facts(std::size_t examples, double mean, double variance) const {
    pb::ToServer message = facts_of(0, examples, terms.agreement);
    *message.mutable_facts()->add_classes() = "ill";
    *message.mutable_facts()->add_classes() = "well";
    *message.mutable_facts()->add_columns() = "age";
    add(*message.mutable_facts()->mutable_inputs(), mean, variance);
    add(*message.mutable_facts()->mutable_targets(), 0.0, 4.0);
    return message;
  }
  std::shared_ptr<FakeLink> bring(Hub& to, const std::string& name, const pb::ToServer& facts) {
    auto link = greet(to, name);
    to.received(link, facts);
    return link;
  }
  void expect_agreed(const FakeLink& link) const {
    // Mean (1·0 + 3·4)/4 = 3; variance (1·(1 + 9) + 3·(1 + 1))/4 = 4.
    const auto& welcome = link.last().welcome();
    ASSERT_EQ(welcome.inputs().scale_size(), 1);
    EXPECT_FLOAT_EQ(welcome.inputs().scale(0), 0.5f);
    EXPECT_FLOAT_EQ(welcome.inputs().shift(0), -1.5f);
    EXPECT_FLOAT_EQ(welcome.targets().scale(0), 0.5f);
  }
};

TEST_F(OwnDataTest, MomentsOfAllGiveTheScalesOfEachAlsoAfterAKill) {
  const auto a = bring(own, "a", facts(1, 0.0, 1.0));
  EXPECT_TRUE(a->sent[0]->terms().measure_inputs());
  EXPECT_TRUE(a->sent[0]->terms().measure_targets());
  const auto b = bring(own, "b", facts(3, 4.0, 1.0));
  expect_agreed(*a);
  expect_agreed(*b);
  Hub again(terms, 100, journal, log);
  expect_agreed(*bring(again, "a", facts(1, 0.0, 1.0)));
  EXPECT_FLOAT_EQ(again.scales().inputs.shift[0], -1.5f);
  EXPECT_NE(bring(again, "b", facts(3, 4.5, 1.0))->refusal().find("other moments than when it joined"),
            std::string::npos);
}

TEST_F(OwnDataTest, RefusesOtherNamesAndMomentsThatNoDataHave) {
  const auto refused = [&](const std::function<void(pb::Facts&)>& change) {
    pb::ToServer message = facts(3, 1.0, 1.0);
    change(*message.mutable_facts());
    return bring(own, "a", message)->refusal();
  };
  EXPECT_NE(refused([](pb::Facts& facts) {
              facts.set_classes(1, "wel");
            }).find("its class 2 is 'wel', in this federation it is 'well'"),
            std::string::npos);
  EXPECT_NE(refused([](pb::Facts& facts) {
              *facts.add_columns() = "sex";
            }).find("its column 2 is 'sex', in this federation it is 'missing'"),
            std::string::npos);
  EXPECT_NE(refused([](pb::Facts& facts) { facts.clear_inputs(); }).find("the moments of 0 channels"),
            std::string::npos);
  EXPECT_NE(refused([](pb::Facts& facts) { facts.mutable_inputs(0)->set_variance(-1.0); }).find("a variance of -1"),
            std::string::npos);
  EXPECT_NE(refused([](pb::Facts& facts) { facts.mutable_targets(0)->set_mean(NAN); }).find("a mean of nan"),
            std::string::npos);
  // Data without names are compared by number alone.
  EXPECT_EQ(refused([](pb::Facts& facts) { facts.clear_classes(); }), "");
}

TEST_F(HubTest, RefusesAnotherProtocolABadNameAndMessagesOutOfOrder) {
  const auto old = std::make_shared<FakeLink>();
  hub.opened(old);
  hub.received(old, hello_of("a", kProtocol + 1));
  EXPECT_NE(old->refusal().find(fmt::format("version {} of the protocol", kProtocol + 1)), std::string::npos);
  EXPECT_NE(greet(hub, "../etc")->refusal().find("its name must be"), std::string::npos);
  const auto eager = std::make_shared<FakeLink>();
  hub.opened(eager);
  hub.received(eager, offer_of(1, 10));
  EXPECT_NE(eager->refusal().find("out of order"), std::string::npos);
  // What comes on a refused link counts for nothing.
  const std::size_t sent = eager->sent.size();
  hub.received(eager, hello_of("a"));
  EXPECT_EQ(eager->sent.size(), sent);
}

TEST_F(HubTest, ACertificateSaysWhoSomebodyIs) {
  EXPECT_NE(greet(hub, "b", "a")->refusal().find("its certificate is a's"), std::string::npos);
  EXPECT_TRUE(greet(hub, "a", "a")->last().has_terms());
  EXPECT_TRUE(greet(hub, "", "a")->last().has_terms());
}

TEST_F(HubTest, ARevokedCertificateIsRefusedAndALiveOneIsCut) {
  revoked = {"01"};
  EXPECT_NE(greet(hub, "a", "a", "01")->refusal().find("revoked"), std::string::npos);
  const auto link = greet(hub, "a", "a", "02");
  hub.received(link, facts_of(0, 5));
  hub.look_after();
  EXPECT_FALSE(link->closed);
  revoked = {"01", "02"};
  hub.look_after();
  EXPECT_TRUE(link->closed);
  EXPECT_NE(link->refusal().find("revoked"), std::string::npos);
}

TEST_F(HubTest, WhoComesAgainTakesItsOldPlace) {
  const auto first = join("a", 0, 5);
  const auto second = join("a", 0, 5);
  EXPECT_TRUE(first->closed);
  EXPECT_FALSE(second->closed);
  hub.closed(first);  // the end of the old stream is not the end of the node
  EXPECT_TRUE(hub.status()["nodes"][0]["connected"].get<bool>());
}

struct RoundTest : HubTest {
  std::shared_ptr<FakeLink> a = join("a", 0, 5), c = join("c", 2, 3);
  RoundTest() {
    hub.open_round(4, 2, 1, broadcast(4));
    hub.invite(0, 3);
  }
  std::string spoiled() {
    while (const auto next = event()) {
      if (next->kind == Event::Kind::spoiled) return next->reason;
    }
    return "nothing was spoiled";
  }
};

TEST_F(RoundTest, AnInvitationIsFollowedByItsBroadcastAndAnAnswerByAVerdict) {
  const auto& invitation = a->sent[a->sent.size() - 2]->invitation();
  EXPECT_EQ(invitation.round(), 4u);
  EXPECT_EQ(invitation.last_accepted(), 3u);
  EXPECT_EQ(invitation.length(), a->last().chunk().bytes().size());
  hub.received(a, offer_of(4, 6));
  auto next = event();
  ASSERT_TRUE(next && next->kind == Event::Kind::offered);
  hub.take(0, next->length);
  EXPECT_EQ(a->last().take().round(), 4u);
  hub.received(a, chunk_of(4, 0, "abc"));
  EXPECT_FALSE(event());
  hub.received(a, chunk_of(4, 3, "def"));
  next = event();
  ASSERT_TRUE(next && next->kind == Event::Kind::answered);
  EXPECT_EQ(next->bytes.size(), 6u);
  hub.verdict(0, true, "");
  EXPECT_TRUE(a->last().verdict().accepted());
  EXPECT_EQ(last_audit("accepted"), "a: ");
}

// One node that can unpack, and one that cannot.
TEST_F(HubTest, ChunksArePackedForThoseWhoCanUnpackThem) {
  Hub packing({.config = "config", .agreement = kAgreed, .rows = true, .sizes = {5, 0, 3}, .compress = true}, 10000,
              journal, log);
  const auto able = std::make_shared<FakeLink>(), unable = std::make_shared<FakeLink>();
  pb::ToServer hello = hello_of("able");
  hello.mutable_hello()->add_compressions("zstd");
  packing.opened(able), packing.opened(unable);
  packing.received(able, hello), packing.received(unable, hello_of("unable"));
  EXPECT_EQ(able->last().terms().compression(), "zstd");
  EXPECT_EQ(unable->last().terms().compression(), "");
  packing.received(able, facts_of(0, 5)), packing.received(unable, facts_of(2, 3));
  State state;
  state.add("theta", std::make_shared<const Layout>(std::vector<LayoutEntry>{{.name = "w", .shape = {1000}}}), true,
            Flat(1000, 1.0f));
  packing.open_round(1, 2, 1, Broadcast(state, 1));
  for (const std::size_t client : {0, 2}) packing.invite(client, 0);
  EXPECT_GT(unable->last().chunk().bytes().size(), 4000u);
  EXPECT_LT(able->last().chunk().bytes().size(), 400u);
  EXPECT_EQ(able->last().chunk().unpacked(), unable->last().chunk().bytes().size());
  const Json nodes = packing.status()["nodes"];
  EXPECT_EQ(nodes[0]["bytes_out"], nodes[1]["bytes_out"]);
  EXPECT_EQ(nodes[0]["line_out"], able->last().chunk().bytes().size());
  EXPECT_EQ(nodes[1]["line_out"], nodes[1]["bytes_out"]);

  pb::ToServer answer;
  fill(*answer.mutable_chunk(), 1, 0, std::string(5000, 'x'), true);
  for (const std::size_t client : {0, 2}) {
    const auto& link = client == 0 ? able : unable;
    packing.received(link, offer_of(1, 5000));
    packing.take(client, 5000);
    packing.received(link, answer);
  }
  EXPECT_EQ(packing.status()["nodes"][0]["bytes_in"], 5000);
  EXPECT_EQ(packing.status()["nodes"][0]["line_in"], answer.chunk().bytes().size());
  EXPECT_NE(unable->refusal().find("that was not agreed on"), std::string::npos);
}

TEST_F(RoundTest, WhoForgotWhatItRememberedSaysSo) {
  auto offer = offer_of(4, 6);
  offer.mutable_offer()->set_forgot(true);
  hub.received(a, offer);
  EXPECT_EQ(event()->kind, Event::Kind::offered);
  EXPECT_NE(last_audit("forgot").find("a: what it remembered is gone"), std::string::npos);
}

TEST_F(RoundTest, RefusesAnAbsurdLengthUnread) {
  hub.received(a, offer_of(4, std::size_t{1} << 60));
  EXPECT_EQ(spoiled(), "it announced an answer of 1152921504606846976 bytes; this federation's have at most 100");
  EXPECT_TRUE(a->closed);
}

TEST_F(RoundTest, RefusesAStaleAnswerAndGoesOn) {
  hub.received(a, offer_of(3, 6));
  EXPECT_FALSE(event());
  EXPECT_EQ(a->last().verdict().reason(), "it answers round 3, and round 4 is open");
  EXPECT_FALSE(a->closed);
  EXPECT_NE(last_audit("late").find("round 3"), std::string::npos);
}

TEST_F(RoundTest, RefusesASecondAnswer) {
  hub.received(a, offer_of(4, 6));
  hub.received(a, offer_of(4, 6));
  EXPECT_EQ(spoiled(), "it answered round 4 twice");
}

TEST_F(RoundTest, RefusesAnAnswerThatNobodyAskedFor) {
  hub.received(a, chunk_of(4, 0, "abc"));
  EXPECT_EQ(spoiled(), "it sent an answer that it was not asked for");
}

TEST_F(RoundTest, RefusesChunksThatDoNotContinueOrGoTooFar) {
  hub.received(a, offer_of(4, 6));
  hub.take(0, 6);
  hub.received(a, chunk_of(4, 2, "abc"));
  EXPECT_EQ(spoiled(), "a chunk begins at byte 2; expected byte 0");
  hub.invite(2, 0);
  hub.received(c, offer_of(4, 6));
  hub.take(2, 6);
  hub.received(c, chunk_of(4, 0, "abcdefgh"));
  EXPECT_EQ(spoiled(), "a chunk goes 2 bytes beyond the announced length of 6");
}

TEST_F(RoundTest, WhoLeavesInTheMiddleStartsItsAnswerAfresh) {
  hub.received(a, offer_of(4, 6));
  hub.take(0, 6);
  hub.received(a, chunk_of(4, 0, "abc"));
  hub.closed(a);
  const auto again = join("a", 0, 5);
  std::vector<Event::Kind> kinds;
  while (const auto next = event()) kinds.push_back(next->kind);
  EXPECT_EQ(kinds, (std::vector{Event::Kind::offered, Event::Kind::left, Event::Kind::joined}));
  EXPECT_TRUE(hub.invite(0, 3));
  hub.received(again, offer_of(4, 6));
  hub.take(0, 6);
  hub.received(again, chunk_of(4, 0, "abcdef"));
  event();
  EXPECT_EQ(event()->kind, Event::Kind::answered);
}

}  // namespace
}  // namespace parley::wire
