// What both ends of a stream agree on: sizes, chunks, and the facts by which a node and a server know that they train
// the same thing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "parley/base/bytes.h"
#include "parley/data/normalize.h"
#include "parley/engine/experiment.h"

namespace parley::wire {

inline constexpr std::uint32_t kProtocol = 3;
// Small, because every stream holds one of its own while it is read or written.
inline constexpr std::size_t kChunk = std::size_t{128} << 10;
// No message is longer: a chunk and what names it, or the terms of a run.
inline constexpr int kLongestMessage = 1 << 20;

// The most bytes that an answer or a broadcast of this experiment can have. What announces more is refused unread.
std::size_t longest_update(const SharedSchema& schema);
std::size_t longest_broadcast(const Experiment& experiment);

// Puts a vector together again that comes in chunks. Memory grows with what has come, not with what was announced.
//
// Failure:  InputError for a chunk that does not continue the last one, or goes beyond the announced length.
class Assembly {
 public:
  explicit Assembly(std::size_t length) : length_(length) {}
  void add(std::size_t offset, std::string_view chunk);
  bool complete() const { return bytes_.size() == length_; }
  Bytes take() { return std::move(bytes_); }

 private:
  std::size_t length_;
  Bytes bytes_;
};

// What must be the same at both ends, as fingerprints and words.
struct Agreement {
  std::string layout;
  std::string initial;
  std::string settings;
  std::string task;                       // "examples of [28, 28], 10 classes"
  std::vector<std::string> classes = {};  // their names; empty where the data have none
  std::vector<std::string> columns = {};  // likewise
};
Agreement agreement_of(const Experiment& experiment);

// What a node with data of its own says of them where they are standardised; nothing where they are not.
struct DataMoments {
  std::vector<Moments> inputs, targets;

  bool operator==(const DataMoments&) const = default;
};
// Of how many channels and targets a federation wants to know them; 0: of none.
struct WantedMoments {
  std::size_t inputs = 0, targets = 0;
};
WantedMoments moments_wanted(const Experiment& experiment);
// Why these are not moments of such data; empty when they can be.
std::string fault_of(const DataMoments& moments, const WantedMoments& wanted);

// Why a node that says `theirs` cannot take part; empty when it can.
std::string difference(const Agreement& ours, const Agreement& theirs);

}  // namespace parley::wire
