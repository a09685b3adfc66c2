// What many clients contributed, added up.
//
// A contribution is a sum of one: Sum(schema).add(update) forms weight·x, and weight·p·x where a channel is `times`
// another. A server that may see its clients' updates adds them here; a client that masks its contribution forms that
// sum itself, and the server only merges.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parley/update/update.h"

namespace parley {

// What one client sent in the channels that are kept for each.
struct Single {
  std::size_t client = 0;
  double weight = 0.0;
  SharedSchema schema;
  std::vector<Flat> channels;  // in the order of the schema; those that are summed are empty

  const Flat& operator[](std::string_view channel) const { return channels[schema->channel(channel)]; }
};

// Folds the updates of one round into one sum.
//
// Order:    add* -> [merge*] -> read, take. Sums are kept in double: a million clients cost no digits, and one client
//           in is that client out, exactly.
// Threads:  one at a time; give each block its own and merge in cohort order.
// Failure:  add() and merge() of what fits cannot fail. Asking for a channel that is not there, is not summed or was
//           taken already throws std::logic_error: a bug.
class Sum {
 public:
  explicit Sum(SharedSchema schema);

  // REQUIRES a checked update of this schema.
  void add(const Update& update);
  // REQUIRES the same schema. Takes over what `other` keeps for each client.
  void merge(Sum& other);
  // Back to zero, memory kept.
  void clear();

  std::size_t count() const { return count_; }
  double weight() const { return weight_; }
  const TrainingStats& training() const { return training_; }
  // On the wire, of all updates that were added.
  std::size_t wire_bytes() const { return wire_bytes_; }
  const Schema& schema() const { return *schema_; }
  const SharedSchema& shared_schema() const { return schema_; }

  // In cohort order; empty when the schema keeps nothing for each client.
  std::span<const Single> singles() const { return singles_; }

  std::span<const double> total(std::string_view channel) const;
  double scalar(std::string_view name) const;
  // The channel's total, or that divided by what it was weighted with: the total weight (by_weight), the count (plain),
  // or element by element the total of the channel that it is `times`. A channel can be taken once; then it is gone.
  FlatDouble take_total(std::string_view channel);
  FlatDouble take_mean(std::string_view channel);
  // For who works on the sum itself: a stage that adds noise, a server that adds what no client sent.
  std::span<double> edit(std::string_view channel);

  // For whoever folds elsewhere: a rank, an edge server, a client that contributes by itself.
  Bytes encode() const;
  void encode(ByteBuffer& to) const;  // behind what is there
  // merge(decode(encoded, schema)), in one pass over the bytes. Throws InputError, and nothing has changed, for bytes
  // that are not a sum of this schema.
  void merge(std::span<const std::byte> encoded);
  // Throws InputError for bytes that are not a sum of this schema.
  static Sum decode(std::span<const std::byte> bytes, SharedSchema schema);

 private:
  void keep_single(const Update& update);
  Single take_single(ByteReader& from) const;
  std::size_t summed(std::string_view channel) const;

  SharedSchema schema_;
  std::size_t count_ = 0;
  double weight_ = 0.0;
  TrainingStats training_;
  std::size_t wire_bytes_ = 0;
  std::vector<FlatDouble> channels_;
  std::vector<bool> taken_;
  std::vector<std::size_t> times_;  // position of the channel each one is `times`, or its own
  std::vector<double> scalars_;
  std::vector<Single> singles_;
};

}  // namespace parley
