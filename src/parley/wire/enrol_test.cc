// Enrolment over loopback, with TLS, and every refusal from both ends: what the node is told, what the desk keeps.
#include "parley/wire/enrol.h"

#include <gtest/gtest.h>

#include "parley/base/errors.h"
#include "parley/base/files.h"
#include "parley/base/temp_folder.h"
#include "parley/wire/keys.h"

namespace parley::wire {
namespace {

namespace fs = std::filesystem;

class Enrolment : public testing::Test {
 protected:
  Enrolment() { make_authority(authority, "federation", 10); }

  void open_desk() {
    desk.emplace(authority, log);
    server.emplace(*desk, authority, "127.0.0.1:0");
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(server->port()); }
  std::string token(const TokenTerms& terms = {.name = "clinic-a"}) const { return make_token(authority, terms); }
  // What the node is told; empty when it was enrolled.
  std::string enrolled(const std::string& with, const std::string& name = "clinic-a",
                       const std::string& node = "node") const {
    try {
      enrol(address(), name, with, folder / node);
      return "";
    } catch (const InputError& refused) {
      return refused.what();
    }
  }
  // The last thing that the desk noted for good.
  std::string noted() const {
    const auto entries = read_audit(desk_journal_of(authority));
    EXPECT_EQ(first_broken(entries), 0);
    return entries.empty() ? "" : entries.back().event + " " + entries.back().node + " " + entries.back().detail;
  }
  void expect_refused(const std::string& told, const std::string& why) const {
    EXPECT_NE(told.find(why), std::string::npos) << told;
    EXPECT_NE(noted().find(why), std::string::npos) << noted();
    EXPECT_TRUE(noted().starts_with("not enrolled ")) << noted();
  }

  TempFolder folder;
  const fs::path authority = folder / "keys";
  const Log log{LogFormat::none};
  std::optional<Desk> desk;
  std::optional<DeskServer> server;
};

TEST_F(Enrolment, GivesACertificateForAKeyThatNeverTravels) {
  open_desk();
  EXPECT_EQ(enrolled(token({.name = "clinic-a", .hosts = {"a.example.org"}, .days = 5})), "");
  EXPECT_EQ(read_certificate(folder / "node/clinic-a.crt").name, "clinic-a");
  EXPECT_EQ(read_file(folder / "node/ca.crt"), read_file(authority / "ca.crt"));
  EXPECT_FALSE(fs::exists(authority / "clinic-a.key"));
  EXPECT_EQ(fs::status(folder / "node/clinic-a.key").permissions() & (fs::perms::group_all | fs::perms::others_all),
            fs::perms::none);
  // The authority knows what it signed, so that it can revoke it.
  EXPECT_EQ(read_file(authority / "clinic-a.crt"), read_file(folder / "node/clinic-a.crt"));
  EXPECT_TRUE(noted().starts_with("enrolled clinic-a ")) << noted();
  revoke(authority, "clinic-a");
}

TEST_F(Enrolment, ATokenWorksOnce) {
  open_desk();
  const std::string once = token();
  EXPECT_EQ(enrolled(once), "");
  expect_refused(enrolled(once, "clinic-a", "thief"), "the token was used on ");
  EXPECT_FALSE(fs::exists(folder / "thief/clinic-a.crt"));
}

TEST_F(Enrolment, AnAnswerThatWasLostCanBeAskedForAgain) {
  open_desk();
  const std::string once = token();
  EXPECT_EQ(enrolled(once), "");
  const std::string first = read_file(folder / "node/clinic-a.crt");
  fs::remove(folder / "node/clinic-a.crt");
  EXPECT_EQ(enrolled(once), "");
  EXPECT_EQ(read_file(folder / "node/clinic-a.crt"), first);
}

TEST_F(Enrolment, ATokenEnds) {
  open_desk();
  expect_refused(enrolled(token({.name = "clinic-a", .hours = 0})), "the token has expired");
}

TEST_F(Enrolment, ATokenIsForOneName) {
  open_desk();
  const std::string given = token();
  expect_refused(enrolled(given, "clinic-b"), "the token is for another name than 'clinic-b'");
  EXPECT_EQ(enrolled(given), "");  // it was not spent
}

TEST_F(Enrolment, AnUnknownTokenIsRefused) {
  open_desk();
  const std::string made_up = fingerprint_of(read_file(authority / "ca.crt")) + "." + std::string(32, '0');
  expect_refused(enrolled(made_up), "the token is unknown here");
}

TEST_F(Enrolment, OnlyTheDeskOfTheTokensFederationIsTrusted) {
  open_desk();
  make_authority(folder / "other", "another", 10);
  const std::string told = enrolled(make_token(folder / "other", {.name = "clinic-a"}));
  EXPECT_NE(told.find("does not belong to the federation that the token is of"), std::string::npos) << told;
  EXPECT_TRUE(noted().starts_with("declined clinic-a ")) << noted();
  EXPECT_NE(noted().find("does not belong"), std::string::npos) << noted();
  EXPECT_FALSE(fs::exists(folder / "node/ca.crt"));
}

TEST_F(Enrolment, AnotherPartyOfTheFederationIsNoDesk) {
  make_certificate(authority, "peer", {"127.0.0.1"}, 10);
  const std::string chain = read_file(authority / "peer.crt") + read_file(authority / "ca.crt");
  EXPECT_THROW(authority_of(chain, fingerprint_of(read_file(authority / "ca.crt"))), InputError);
  make_authority(folder / "other", "another", 10);
  const std::string mixed = make_desk_pair(folder / "other").chain + read_file(authority / "ca.crt");
  EXPECT_THROW(authority_of(mixed, fingerprint_of(read_file(authority / "ca.crt"))), InputError);
  EXPECT_THROW(authority_of("", ""), InputError);
}

TEST_F(Enrolment, TheRequestMustBeForTheNameAndByItsKey) {
  open_desk();
  const std::string secret = token().substr(65);
  const std::string other = make_request(folder / "node", "clinic-b");
  EXPECT_NE(desk->enrol("clinic-a", secret, other, "").refusal.find("is for the name 'clinic-b'"), std::string::npos);
  std::string forged = make_request(folder / "node", "clinic-a");
  forged.replace(forged.find("END") - 12, 1, forged[forged.find("END") - 12] == 'A' ? "B" : "A");
  EXPECT_NE(desk->enrol("clinic-a", secret, forged, "").refusal.find("no request"), std::string::npos);
  EXPECT_NE(desk->enrol("clinic-a", secret, "", "").refusal.find("no request"), std::string::npos);
  EXPECT_EQ(desk->enrol("clinic-a", secret, make_request(folder / "node", "clinic-a"), "").refusal, "");
}

TEST_F(Enrolment, WhatTheAuthorityKeepsIsNoToken) {
  const std::string secret = token().substr(65);
  for (const auto& entry : fs::recursive_directory_iterator(authority)) {
    if (!entry.is_regular_file()) continue;
    EXPECT_EQ(read_file(entry.path()).find(secret), std::string::npos) << entry.path();
    EXPECT_EQ(entry.path().string().find(secret), std::string::npos);
  }
}

TEST_F(Enrolment, RefusesBeforeItAsks) {
  EXPECT_THROW(make_token(folder / "nowhere", {.name = "a"}), InputError);
  for (const char* name : {"", "ca", "desk", "server", "../a"}) {
    EXPECT_THROW(token({.name = name}), InputError) << name;
  }
  open_desk();
  EXPECT_THROW(Desk(authority, log), InputError);  // one desk a folder
  EXPECT_NE(enrolled("word").find("this is no token"), std::string::npos);
  EXPECT_EQ(enrolled(token()), "");
  EXPECT_NE(enrolled(std::string(64, '0') + "." + std::string(32, '0'), "clinic-b").find("another federation's"),
            std::string::npos);
  EXPECT_THROW(token(), InputError);  // the name has a certificate now
}

TEST_F(Enrolment, SaysThatNobodyIsAtTheDesk) {
  open_desk();
  const std::string given = token(), there = address();
  server.reset();
  try {
    enrol(there, "clinic-a", given, folder / "node");
    FAIL();
  } catch (const InputError& refused) {
    EXPECT_NE(std::string(refused.what()).find("no desk answers there"), std::string::npos) << refused.what();
  }
}

}  // namespace
}  // namespace parley::wire
