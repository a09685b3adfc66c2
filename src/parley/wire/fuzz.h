// What fuzzers call: every decoder of the wire, with bytes that nobody has checked. None may do more than refuse.
//
// Also worth calling, with a schema at hand: Update::decode, Broadcast::decode, Sum::decode (update/).
#pragma once

#include <cstddef>
#include <span>

namespace parley::wire {

// The bytes as messages of a node to a server in the middle of a round, each behind its length (two bytes,
// little-endian): parsed, and handed to a Hub.
void feed_hub(std::span<const std::byte> bytes);
// The bytes as a certificate, a request for one, and what a desk shows.
void feed_certificate(std::span<const std::byte> bytes);

// The bytes as the counters of a model that another peer hands over; its vectors and checksum are right.
void feed_shelf(std::span<const std::byte> bytes);

// The bytes as weights that another peer sends: messages, each behind its length as with feed_hub. What they bring is
// also tried as the bytes of the weights themselves, announced as they should be.
void feed_weights(std::span<const std::byte> bytes);

}  // namespace parley::wire
