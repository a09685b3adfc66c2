// What a client remembers from round to round, and what it makes of that in one.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "parley/tensor/flat.h"

namespace parley {

// Named vectors of one client.
using ClientRecord = std::map<std::string, Flat, std::less<>>;

// A client's memory during one round: what it knew before, and what it wants to know afterwards. Nothing takes effect
// before the server has accepted the client's answer.
class ClientMemory {
 public:
  ClientMemory() = default;
  explicit ClientMemory(std::optional<ClientRecord> known) : known_(std::move(known)) {}

  // The record of earlier rounds; null for a client that never took part.
  const ClientRecord* known() const { return known_ ? &*known_ : nullptr; }
  // Replaces everything.
  void keep(ClientRecord record) { next_ = std::move(record); }
  // Adds to what is kept already or, when nothing is, to what was known; the names in `more` win.
  void amend(ClientRecord more) {
    if (next_) {
      more.merge(*next_);
    } else if (known_) {
      more.insert(known_->begin(), known_->end());
    }
    next_ = std::move(more);
  }
  // What is to be stored, once; nothing when the record stays as it was.
  std::optional<ClientRecord> take() { return std::exchange(next_, std::nullopt); }

 private:
  std::optional<ClientRecord> known_, next_;
};

}  // namespace parley
