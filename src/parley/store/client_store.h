// What a client remembers between rounds (control variates, private weights, optimiser slots).
//
// A record is changed in two moves, so that a kill changes nothing:
//   stage(client, record)  when the client's answer has been accepted
//   commit(round)          when the round is over
//   save(round)            when the round's checkpoint is about to be written
// On disk a record is `<client>.<round>.safetensors`; versions newer than the checkpoint are ignored and removed by
// open_at(round), older ones are removed once a newer one is safe.
//
// Threads:  load() and stage() from any worker, for different clients; the rest from one thread between rounds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "parley/base/files.h"
#include "parley/update/record.h"

namespace parley {

class ClientStore {
 public:
  enum class Keep {
    memory,  // records stay in memory, and are written to the folder by save()
    disk,    // only the folder: memory does not grow with the number of clients
  };
  // An empty folder path keeps records in memory alone (a run without checkpoints). `run` and the client are
  // written into every record; one that says otherwise is of another run or client, whose factors and weights mean
  // nothing here, and is refused.
  ClientStore(Keep keep, std::filesystem::path folder, Files& files, std::string run = {});

  // Reads the newest record of each client that is of `round` or before. Throws InputError when one is damaged or not
  // this client's of this run, here or in load(). Touches no file: a run does so before it changes anything in its
  // folder.
  void read_at(std::size_t round);
  // Removes the files of everything newer than `round`.
  void forget_after(std::size_t round) const;
  // Both.
  void open_at(std::size_t round);

  // Who has a committed record, in order.
  std::vector<std::size_t> clients() const;
  // The committed record, or nothing for a client never seen.
  std::optional<ClientRecord> load(std::size_t client) const;
  void stage(std::size_t client, ClientRecord record);
  void commit(std::size_t round);
  // Brings what is only in memory so far to the folder.
  void save(std::size_t round);
  // After the checkpoint of the last save is safe: removes the versions it replaced.
  void sweep();

 private:
  std::filesystem::path path(std::size_t client, const std::string& version) const;
  std::map<std::size_t, std::size_t> newest_at(std::size_t round) const;  // the version of each client
  ClientRecord read(std::size_t client, const std::string& version) const;
  void write(std::size_t client, const std::string& version, const ClientRecord& record) const;
  void replace_version(std::size_t client, const std::string& version);

  Keep keep_;
  std::filesystem::path folder_;
  Files& files_;
  std::string run_;
  mutable std::mutex mutex_;
  std::map<std::size_t, ClientRecord> records_;                // Keep::memory
  std::map<std::size_t, std::optional<ClientRecord>> staged_;  // no value: already on disk as "next"
  std::set<std::size_t> unsaved_;                              // committed, and in memory only
  std::map<std::size_t, std::string> versions_;                // committed version on disk
  std::set<std::filesystem::path> stale_;
};

}  // namespace parley
