// A client's answer to a broadcast: named channels and scalars.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parley/base/bytes.h"
#include "parley/tensor/flat.h"
#include "parley/update/broadcast.h"
#include "parley/update/packing.h"
#include "parley/update/schema.h"
#include "parley/update/training.h"

namespace parley {

// Reused from client to client; shaped once.
class Update {
 public:
  Update() = default;
  explicit Update(SharedSchema schema) { shape(std::move(schema)); }

  std::size_t round = 0;  // the number of the broadcast that it answers
  std::size_t client = 0;
  double weight = 0.0;  // > 0; its share in what is summed by weight
  TrainingStats training;

  // Sizes everything for the schema, all zero.
  void shape(SharedSchema schema);

  // By name; asking for one that is not in the schema throws std::logic_error.
  Flat& operator[](std::string_view channel) { return channels_[schema_->channel(channel)]; }
  const Flat& operator[](std::string_view channel) const { return channels_[schema_->channel(channel)]; }
  double& scalar(std::string_view name) { return scalars_[schema_->scalar(name)]; }
  double scalar(std::string_view name) const { return scalars_[schema_->scalar(name)]; }

  // In the order of the schema.
  std::vector<Flat>& channels() { return channels_; }
  const std::vector<Flat>& channels() const { return channels_; }
  std::vector<double>& scalars() { return scalars_; }
  const std::vector<double>& scalars() const { return scalars_; }
  const Schema& schema() const { return *schema_; }
  const SharedSchema& shared_schema() const { return schema_; }

  // How a channel travels; plain unless somebody packs it. REQUIRES bytes that unpack to the channel's numbers, and
  // that nobody changes those afterwards without packing anew.
  void pack(std::string_view channel, Packed packed) { packed_[schema_->channel(channel)] = std::move(packed); }
  const Packed& packing(std::string_view channel) const { return packed_[schema_->channel(channel)]; }

  // Sizes, a positive weight, every number finite and within its bound. Throws RefusedUpdate; the message says which
  // channel and where, not who.
  void check(const Schema& expected) const;

  // As it goes over the wire, and how many bytes that is.
  Bytes encode() const;
  std::size_t wire_bytes() const;
  // What a client sent in answer to `broadcast`. Throws RefusedUpdate for bytes that are not an update of this schema,
  // or that answer another broadcast. The result is still to be checked.
  static Update decode(std::span<const std::byte> bytes, SharedSchema schema, const Broadcast& broadcast);

 private:
  template <class Sink>
  void write(Sink& sink) const;
  void read(ByteReader& from, const Broadcast& broadcast);

  SharedSchema schema_;
  std::vector<Flat> channels_;
  std::vector<double> scalars_;
  std::vector<Packed> packed_;
  std::size_t sent_bytes_ = 0;  // of an update that was decoded; how it was packed is no longer known
};

}  // namespace parley
