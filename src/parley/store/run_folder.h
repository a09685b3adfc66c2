// One run on disk: config.toml, metrics.jsonl, model.safetensors, run.json, clients.json, checkpoint/.
//
// A round is finished when its checkpoint is on disk; everything else is brought back to that point by resume().
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "parley/base/files.h"
#include "parley/update/state.h"

namespace parley {

using Json = nlohmann::ordered_json;

// A run folder has one owner at a time: two processes that write to it would destroy each other's files. The lock is on
// the folder itself, makes no file, and is gone with the process, however that ends.
class FolderLock {
 public:
  // Throws InputError when another process has it.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int handle_;
};

class RunFolder {
 public:
  // Makes the folder and checks that it can be written to. Throws InputError.
  RunFolder(std::filesystem::path path, Files& files);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path client_folder() const { return path_ / "checkpoint" / "clients"; }

  // What run.json says, when there is one.
  static std::optional<Json> read_info(const std::filesystem::path& path);
  // The resolved config of the run that is there; "" when there is none.
  std::string config() const;

  // The run goes on behind `last_round`; 0 is a new run, which removes what an earlier one left here. Writes
  // config.toml and run.json, and cuts metrics.jsonl back to that round.
  void begin(const std::string& config, const Json& info, std::size_t last_round);
  void write_info(const Json& info);
  void append_metrics(const Json& line);
  // clients.json: what the last evaluation found for each client.
  void write_clients(const Json& table);
  // The lines so far.
  std::vector<Json> metrics() const;

  // The state after `round`; `progress` is what else the engine wants back.
  void write_checkpoint(std::size_t round, const State& state, const Json& progress);
  struct Resumed {
    std::size_t round = 0;
    Json progress;
  };
  // Brings `state` back to the last finished round; nothing when no round was finished. Throws InputError when the
  // checkpoint is damaged. Changes no file.
  std::optional<Resumed> resume(State& state) const;

  void write_model(const State& state);

 private:
  std::filesystem::path checkpoint() const { return path_ / "checkpoint"; }
  void cut_metrics(std::size_t last_round);

  std::filesystem::path path_;
  Files& files_;
};

}  // namespace parley
