// The fuzzers' entry points, with bytes drawn at random from a seed that is printed: messages that are almost right.
#include "parley/wire/fuzz.h"

#include <gtest/gtest.h>

#include <random>

#include "parley/wire/federation.pb.h"
#include "parley/wire/protocol.h"

namespace parley::wire {
namespace {

namespace pb = parley::wire::v1;

void append(std::string& to, const pb::ToServer& message) {
  const std::string bytes = message.SerializeAsString();
  to += static_cast<char>(bytes.size() & 0xff);
  to += static_cast<char>(bytes.size() >> 8);
  to += bytes;
}

// A node that joins, offers and sends as it should.
std::string good_conversation() {
  std::string all;
  pb::ToServer hello, facts, offer, chunk;
  hello.mutable_hello()->set_protocol(kProtocol);
  hello.mutable_hello()->set_name("a");
  facts.mutable_facts()->set_examples(1);
  offer.mutable_offer()->set_round(1);
  offer.mutable_offer()->set_length(4);
  chunk.mutable_chunk()->set_round(1);
  chunk.mutable_chunk()->set_bytes("abcd");
  for (const auto& message : {hello, facts, offer, chunk}) append(all, message);
  return all;
}

TEST(Fuzz, NothingBreaksTheHub) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 dice(seed);
  const std::string good = good_conversation();
  feed_hub(std::as_bytes(std::span(good)));
  for (int round = 0; round < 300; ++round) {
    std::string bytes = good;
    for (int change = static_cast<int>(dice() % 5); change >= 0; --change) {
      const std::size_t at = dice() % bytes.size();
      switch (dice() % 3) {
        case 0: bytes[at] = static_cast<char>(dice()); break;
        case 1: bytes.insert(at, 1, static_cast<char>(dice())); break;
        default: bytes.erase(at, 1 + dice() % 4);
      }
      if (bytes.empty()) bytes = good;
    }
    feed_hub(std::as_bytes(std::span(bytes)));
    feed_certificate(std::as_bytes(std::span(bytes)));
    feed_weights(std::as_bytes(std::span(bytes)));
  }
}

}  // namespace
}  // namespace parley::wire
