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

class RunFolder {
 public:
  // Makes the folder and checks that it can be written to. Throws InputError.
  RunFolder(std::filesystem::path path, Files& files);

  // In run.json while a new run takes the place of an old one: nothing of either can be resumed.
  static constexpr const char* kBeginning = "beginning";

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path client_folder() const { return path_ / "checkpoint" / "clients"; }

  // What run.json says, when there is one.
  static std::optional<Json> read_info(const std::filesystem::path& path);
  // The resolved config of the run that is there; "" when there is none.
  std::string config() const;

  struct Resumed {
    std::size_t round = 0;
    Json progress = {};
    std::string metrics = {};  // the checksum of the lines up to this round
  };
  // The run goes on behind `from`; round 0 is a new run, which removes what an earlier one left here. Writes
  // config.toml and run.json, and cuts metrics.jsonl back to that round. Throws InputError, before it changes anything,
  // when the lines up to that round are not those that were written.
  void begin(const std::string& config, const Json& info, const Resumed& from);
  void begin(const std::string& config, const Json& info) { begin(config, info, Resumed()); }
  void write_info(const Json& info);
  void append_metrics(const Json& line);
  // clients.json: what the last evaluation found for each client.
  void write_clients(const Json& table);
  // The lines so far. With a checksum, only those that it speaks of; throws InputError when they are not there.
  std::vector<Json> metrics(const std::optional<std::string>& checksum = {}) const;
  // Of all lines that this object began with and appended.
  const std::string& metrics_checksum() const { return metrics_checksum_; }

  // The state after `round`; `progress` is what else the engine wants back.
  void write_checkpoint(std::size_t round, const State& state, const Json& progress);
  // Brings `state` back to the last finished round; nothing when no round was finished. Throws InputError when the
  // checkpoint is damaged. Changes no file.
  std::optional<Resumed> resume(State& state) const;

  // Returns the file's checksum.
  std::string write_model(const State& state);

 private:
  std::filesystem::path checkpoint() const { return path_ / "checkpoint"; }
  std::string lines_with(const std::string& checksum) const;

  std::filesystem::path path_;
  Files& files_;
  std::string metrics_checksum_;
};

}  // namespace parley
