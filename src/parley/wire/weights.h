// Weights between peers whose models stay at home: how they are sent, taken, and kept.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "parley/store/folder_lock.h"
#include "parley/tensor/flat.h"
#include "parley/tensor/layout.h"
#include "parley/wire/peer.pb.h"
#include "parley/wire/protocol.h"

namespace parley::wire {

// Weights and their number: the round, or with gossip the age.
struct Weights {
  std::size_t number = 0;
  Flat values;
};
// As they go over the wire: a broadcast's encoding.
Bytes encode(const Weights& weights, const std::shared_ptr<const Layout>& layout);

// What another peer sends, part by part.
//
// Failure:  InputError for what is no such message, or no weights of this model. Nothing was changed.
class Incoming {
 public:
  // `model`: whose weights they must be.
  explicit Incoming(const Layout& model) : model_(model) {}
  // The first part says what comes; the others bring it.
  void add(const v1::PeerWeights& part);
  // Whether anything came.
  bool begun() const { return assembly_.has_value(); }
  v1::PeerWeights::Kind kind() const { return kind_; }
  // When all parts were added. Nothing where none come with this kind.
  std::optional<Weights> take();

 private:
  const Layout& model_;
  v1::PeerWeights::Kind kind_ = v1::PeerWeights::PENDING;
  std::optional<Assembly> assembly_;
  std::size_t length_ = 0, offset_ = 0;
};

// What a peer has: its weights, and how far it has come.
struct Home {
  Flat theta;
  Flat offered = {};     // in the round before this; empty: it offered nothing
  std::size_t done = 0;  // rounds, or with gossip trainings
  std::size_t age = 0;   // gossip: trainings behind the weights
  std::size_t sent = 0;  // gossip: messages, which name the draws of whom to send to
};

// The file it is kept in, on disk before anybody is told. One peer has it at a time.
class HomeFile {
 public:
  // `run` names what all peers agree on. Throws InputError when another process has the folder.
  HomeFile(std::filesystem::path folder, std::string run, const Layout& model);
  // Nothing when there is none yet. Throws InputError when it is damaged, or of another run.
  std::optional<Home> load() const;
  // Throws RunError when the disk is full.
  void save(const Home& home) const;

 private:
  const std::filesystem::path folder_, file_;
  const std::string run_;
  const Layout& model_;
  FolderLock lock_;
};

}  // namespace parley::wire
