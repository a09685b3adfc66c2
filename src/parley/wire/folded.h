// What a relay sends in the place of its clients' answers: their sum, and what became of each.
#pragma once

#include <span>
#include <vector>

#include "parley/engine/fold.h"

namespace parley::wire {

struct FoldedAnswer {
  std::vector<Settlement> settlements;  // in the order in which they were asked
  Sum sum;
};

Bytes encode(std::size_t round, const FoldedAnswer& answer);

// Of whom an answer must be, and what it must weigh.
struct FoldedFrom {
  std::size_t round;
  std::vector<std::size_t> clients;  // that were asked, in order
  std::vector<std::size_t> sizes;    // of all clients of the federation
  bool uniform_weights;
};
// Throws RefusedUpdate for what is not a sum of some of these, with the weights they have, or is not finite.
FoldedAnswer decode_folded(std::span<const std::byte> bytes, const SharedSchema& schema, const FoldedFrom& from);

// The most bytes that such an answer of so many clients can have.
std::size_t longest_folded(const SharedSchema& schema, std::size_t clients);

}  // namespace parley::wire
