// What a peer has of the models that travel: which it holds, which it has handed on, which have ended. All on disk
// before anybody is told, so that a kill at any moment leaves every model in exactly one place.
//
// For each model K.json says where it stands, and K.MOVES.safetensors holds what it carries (Traveller), which is also
// what goes over the wire. A move has a number: one that is not beyond what is known here is stale, and refused.
//
//   absent, gone ─take_in▶ pending ─commit▶ held ─leave▶ leaving ─promise▶ promised ─let_go▶ gone
//                                             └finish▶ final
//
// Threads:  any.
// Failure:  what comes from others is refused with a reason, never by an exception. RunError when the disk is full;
//           InputError when what is on disk is damaged or another run's.
#pragma once

#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "parley/engine/peer/hosting.h"
#include "parley/store/folder_lock.h"

namespace parley::wire {

enum class Standing { absent, pending, held, leaving, promised, gone, final };

struct ShelfEntry {
  Standing standing = Standing::absent;
  std::size_t moves = 0;  // the last one that is known here
  std::string peer = {};  // pending: whose it is still; promised: whose it will be; final: who finished it
};

// A reply to another peer.
struct Receipt {
  std::string refusal = {};
  bool stale = false, missing = false;
};

class Shelf {
 public:
  // What the experiment's models must fit; both must outlive it. `run` names what all peers agree on.
  Shelf(std::filesystem::path folder, std::string run, const Experiment& experiment, const Hosting& hosting);

  std::size_t size() const { return entries_.size(); }
  // Moves that a model makes before it has ended.
  std::size_t journey() const { return journey_; }
  // No carried model has more bytes.
  std::size_t longest() const { return longest_; }
  ShelfEntry at(std::size_t model) const;
  bool all_final() const;
  // A model that is here, as one that this node hosts.
  Traveller load(std::size_t model, std::size_t node) const;
  // The same as bytes for another peer.
  std::string parcel(std::size_t model) const;

  // --- What this peer does. False when the model has meanwhile ended elsewhere. ---
  void hold(std::size_t model, const Traveller& newborn);
  bool leave(std::size_t model, const Traveller& traveller);
  bool finish(std::size_t model, const Traveller& traveller, const std::string& self);
  bool promise(std::size_t model, const std::string& to);
  bool take_back(std::size_t model);  // what was promised never got there
  bool let_go(std::size_t model);

  // --- What others ask ---
  // Whether a parcel would be taken, before it comes.
  Receipt would_take(std::size_t model, std::size_t moves, std::size_t length, const std::string& from,
                     bool final) const;
  Receipt take_in(std::size_t model, std::size_t moves, const std::string& from, bool final, const std::string& bytes);
  Receipt commit(std::size_t model, std::size_t moves, const std::string& from);

 private:
  std::filesystem::path note_of(std::size_t model) const;
  std::filesystem::path carried_by(std::size_t model, std::size_t moves) const;
  Receipt judge(std::size_t model, std::size_t moves, std::size_t length, const std::string& from, bool final) const;
  // Throws InputError, or what JSON throws, when the bytes are not this model after so many moves.
  Traveller unpack(std::size_t model, std::size_t moves, const std::string& bytes) const;
  void write(std::size_t model, const Traveller& traveller) const;
  void note(std::size_t model, ShelfEntry entry);

  const std::filesystem::path folder_;
  const std::string run_;
  const Experiment& experiment_;
  const Hosting& hosting_;
  FolderLock lock_;
  std::size_t journey_, longest_;
  mutable std::mutex mutex_;
  std::vector<ShelfEntry> entries_;
};

}  // namespace parley::wire
