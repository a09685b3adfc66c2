#include "parley/store/run_folder.h"

#include <sstream>

#include "parley/base/errors.h"
#include "parley/base/fingerprint.h"
#include "parley/base/nesting.h"

namespace parley {
namespace {

namespace fs = std::filesystem;

std::string state_file(std::size_t round) {
  return fmt::format("state.{}.safetensors", round);
}

// Removes checkpoint states other than the one in force.
void sweep_states(const fs::path& folder, const std::string& keep) {
  for (const auto& file : fs::directory_iterator(folder)) {
    const std::string name = file.path().filename().string();
    if (name.starts_with("state.") && name != keep) fs::remove(file.path());
  }
}

Json parse_object(const fs::path& file) {
  const std::string text = read_file(file);
  refuse_deep_json(text, file.string());
  return Json::parse(text, nullptr, false);
}

// A checksum that grows line by line: that of all lines before, and of this one.
std::string chained(const std::string& before, const std::string& line) {
  return fingerprint(before + line + "\n");
}

// An object with its own checksum as the last key.
constexpr const char* kChecksum = "checksum";
Json sealed(Json object) {
  object[kChecksum] = fingerprint(object.dump());
  return object;
}
bool is_sealed(Json object) {
  if (!object.is_object() || !object.contains(kChecksum)) return false;
  const Json checksum = object[kChecksum];
  object.erase(kChecksum);
  return checksum == fingerprint(object.dump());
}

}  // namespace

RunFolder::RunFolder(fs::path path, Files& files) : path_(std::move(path)), files_(files) {
  make_folder(path_);
}

std::optional<Json> RunFolder::read_info(const fs::path& path) {
  const fs::path file = path / "run.json";
  if (!fs::exists(file)) return std::nullopt;
  auto info = parse_object(file);
  if (!info.is_object())
    fail("{}: not a JSON object; the file is damaged, remove the folder and run again", file.string());
  if (info.contains(kChecksum) && !is_sealed(info)) {
    fail(
        "{}: its checksum does not match: the file is damaged or was edited; restore it, or remove the folder and run "
        "again",
        file.string());
  }
  return info;
}

std::string RunFolder::config() const {
  const fs::path file = path_ / "config.toml";
  return fs::exists(file) ? read_file(file) : "";
}

void RunFolder::begin(const std::string& config, const Json& info, const Resumed& from) {
  const fs::path metrics_file = path_ / "metrics.jsonl";
  if (from.round == 0) {
    // The first word of what is to come: from here on nothing that is still there counts as a run.
    if (fs::exists(path_ / "run.json")) write_info({{"state", kBeginning}});
    for (const char* name : {"config.toml", "metrics.jsonl", "model.safetensors", "report.html", "clients.json"}) {
      fs::remove(path_ / name);
    }
    fs::remove_all(checkpoint());
    metrics_checksum_.clear();
    files_.append(metrics_file, "");
  } else {
    files_.replace(metrics_file, lines_with(from.metrics));
    metrics_checksum_ = from.metrics;
  }
  make_folder(client_folder());
  files_.replace(path_ / "config.toml", config);
  write_info(info);
}

void RunFolder::write_info(const Json& info) {
  files_.replace(path_ / "run.json", sealed(info).dump(1) + "\n");
}

void RunFolder::write_clients(const Json& table) {
  files_.replace(path_ / "clients.json", table.dump(1) + "\n");
}

void RunFolder::append_metrics(const Json& line) {
  const std::string text = line.dump();
  files_.append(path_ / "metrics.jsonl", text + "\n");
  metrics_checksum_ = chained(metrics_checksum_, text);
}

std::vector<Json> RunFolder::metrics(const std::optional<std::string>& checksum) const {
  std::vector<Json> lines;
  const fs::path file = path_ / "metrics.jsonl";
  if (!checksum && !fs::exists(file)) return lines;
  std::istringstream text(checksum ? lines_with(*checksum) : read_file(file));
  for (std::string line; std::getline(text, line);) {
    refuse_deep_json(line, file.string());
    lines.push_back(Json::parse(line, nullptr, false));
    if (!lines.back().is_object() || !lines.back().contains("round")) {
      fail("{}:{}: expected one JSON object with a 'round'; the file is damaged", file.string(), lines.size());
    }
  }
  return lines;
}

void RunFolder::write_checkpoint(std::size_t round, const State& state, const Json& progress) {
  // The state first, under a name of its own; the rename of checkpoint.json is the moment at which the round is done.
  const std::string name = state_file(round);
  const std::string checksum = state.write(files_, checkpoint() / name);
  const Json record = sealed({{"round", round},
                              {"state", name},
                              {"state_checksum", checksum},
                              {"metrics_checksum", metrics_checksum_},
                              {"progress", progress}});
  files_.replace(checkpoint() / "checkpoint.json", record.dump(1) + "\n");
  sweep_states(checkpoint(), name);
}

std::optional<RunFolder::Resumed> RunFolder::resume(State& state) const {
  const fs::path file = checkpoint() / "checkpoint.json";
  if (!fs::exists(file)) return std::nullopt;
  const auto broken = [&](const fs::path& what, const char* why) {
    fail("{}: {}; the checkpoint is damaged: restore the file, or begin again with --overwrite", what.string(), why);
  };
  const Json record = parse_object(file);
  for (const auto& [key, type] :
       {std::pair("round", Json::value_t::number_unsigned), std::pair("state", Json::value_t::string),
        std::pair("state_checksum", Json::value_t::string), std::pair("metrics_checksum", Json::value_t::string)}) {
    if (!record.is_object() || !record.contains(key) || record[key].type() != type) {
      broken(file, "not a checkpoint record of this version");
    }
  }
  if (!is_sealed(record)) broken(file, "its checksum does not match");
  const fs::path tensors = checkpoint() / record["state"].get<std::string>();
  if (!fs::exists(tensors)) broken(tensors, "missing");
  const TensorFile read = read_safetensors(tensors);
  if (read.checksum != record["state_checksum"].get<std::string>()) broken(tensors, "not the state of this checkpoint");
  state.restore(read, tensors.string());
  return Resumed{record["round"].get<std::size_t>(), record.value("progress", Json::object()),
                 record["metrics_checksum"].get<std::string>()};
}

// The lines that the checksum is of. A kill can fall between a round's line and its checkpoint; that line is not among
// them and will be written again.
std::string RunFolder::lines_with(const std::string& checksum) const {
  const fs::path file = path_ / "metrics.jsonl";
  std::istringstream text(fs::exists(file) ? read_file(file) : "");
  std::string kept, sum;
  for (std::string line; sum != checksum && std::getline(text, line);) {
    kept += line + "\n";
    sum = chained(sum, line);
  }
  if (sum != checksum) {
    fail(
        "{}: not the rounds that the run has written; the file is damaged: restore it, or begin again with --overwrite",
        file.string());
  }
  return kept;
}

std::string RunFolder::write_model(const State& state) {
  return state.write(files_, path_ / "model.safetensors");
}

}  // namespace parley
