// What a server must still know after a kill, beside the run's checkpoint: who its nodes are and whose answers counted;
// and the audit log, in which nothing can be changed unseen. One SQLite file.
//
// The audit log is a chain: every entry holds the SHA-256 of itself and the entry before it. Whoever changes, removes
// or inserts one has to change all that follow; head() is what to write down elsewhere to see even that.
//
// Threads:  any.
// Failure:  RunError, naming the file, when it cannot be written (a full disk); InputError when it is not a journal.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct sqlite3;

namespace parley::wire {

struct Member {
  std::string name;
  std::size_t client = 0;
  std::size_t examples = 0;
  std::string moments = {};  // what it said of its data, as the hub writes it
};

// An answer that counted.
struct Counted {
  std::size_t client = 0;
  std::size_t invitation = 0;  // the round itself, or an earlier one where rounds are buffered
};

struct AuditEntry {
  std::int64_t number = 0;
  std::string time, event, node;
  std::int64_t round = 0;
  std::string detail, hash;
};

class Journal {
 public:
  // Makes the file unless it is there. `run` names the run it belongs to; another one's is refused.
  Journal(const std::filesystem::path& file, const std::string& run);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // The federation, once it is complete; empty before.
  std::vector<Member> members() const;
  void remember(std::span<const Member> members);

  // Forgets what was noted of this round and later ones: it is played (again). Gives for each client the invitation
  // (the number of its broadcast) that its last answer to have counted before was an answer to; clients without one are
  // missing.
  std::map<std::size_t, std::size_t> begin_round(std::size_t round);
  // Before the round's checkpoint is written, so that it is never behind.
  void accepted(std::size_t round, std::span<const Counted> answers);

  void audit(std::string_view event, std::string_view node, std::size_t round, std::string_view detail);
  std::string head() const;

 private:
  void run(const std::string& statement) const;

  std::string name_;
  sqlite3* database_ = nullptr;
  mutable std::mutex mutex_;
  std::int64_t entries_ = 0;
  std::string head_;
};

// All entries of a journal's audit log, in order, whatever their hashes say.
std::vector<AuditEntry> read_audit(const std::filesystem::path& file);
// The number of the first entry that was changed, or that follows one which is missing; 0 when the chain is whole.
std::int64_t first_broken(std::span<const AuditEntry> entries);

}  // namespace parley::wire
