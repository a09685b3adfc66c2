// A client's answer, and the sum of many.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "parley/optim/local_training.h"
#include "parley/tensor/flat.h"
#include "parley/update/schema.h"

namespace parley {

// Channels and scalars in the order of the schema. Reused from client to client; shaped once.
struct Update {
  std::size_t client = 0;
  double weight = 0.0;  // > 0; its share in what is summed by weight
  std::vector<Flat> channels;
  std::vector<double> scalars;
  TrainingStats training;
  // What a stage made of a channel on the wire, in bytes; 0: four bytes a float.
  std::vector<std::size_t> encoded_bytes;

  // Sizes everything for the schema, all zero.
  void shape(const Schema& schema);
  // Bytes on the wire: channels, scalars and the weight.
  std::size_t wire_bytes() const;
};

// What one client sent in the channels that are kept for each.
struct Single {
  std::size_t client = 0;
  double weight = 0.0;
  std::vector<Flat> channels;  // in the order of the schema; those that are summed are empty
};

// Folds the updates of one round into one sum.
//
// Order:    add* -> [merge*] -> read. Sums are kept in double: a million clients cost no digits, and one client in is
//           that client out, exactly.
// Threads:  one at a time; give each block its own and merge in cohort order.
// Failure:  check() throws RefusedUpdate and changes nothing; add() and merge() of what fits cannot fail.
class Sum {
 public:
  Sum() = default;
  explicit Sum(const Schema& schema);

  // Sizes, a positive weight, every number finite. The message says which channel and where, not who.
  static void check(const Schema& schema, const Update& update);
  // REQUIRES a checked update.
  void add(const Update& update);
  // REQUIRES the same schema. Takes over what `other` keeps for each client.
  void merge(Sum& other);
  // Back to zero, memory kept.
  void clear();

  std::size_t count() const { return count_; }
  double weight() const { return weight_; }
  const TrainingStats& training() const { return training_; }
  std::size_t wire_bytes() const { return wire_bytes_; }

  // In cohort order; empty when the schema keeps nothing for each client.
  std::span<const Single> singles() const { return singles_; }

  // Of a channel that is summed, likewise take_mean() and edit().
  std::span<const double> channel(const std::string& name) const;
  double scalar(const std::string& name) const;
  // The channel divided by what it was weighted with, in place, once a channel: the total weight (by_weight), the count
  // (plain), or element by element the sum of the channel that it is `times`.
  std::span<const double> take_mean(const std::string& name);
  std::span<double> edit(const std::string& name);
  const Schema& schema() const { return schema_; }

 private:
  void keep_single(const Update& update);

  Schema schema_;
  std::size_t count_ = 0;
  double weight_ = 0.0;
  TrainingStats training_;
  std::size_t wire_bytes_ = 0;
  std::vector<FlatDouble> channels_;
  std::vector<std::size_t> times_;  // position of the channel each one is `times`, or its own
  std::vector<double> scalars_;
  std::vector<Single> singles_;
};

}  // namespace parley
