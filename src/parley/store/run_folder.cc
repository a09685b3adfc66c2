#include "parley/store/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "parley/base/errors.h"

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

}  // namespace

FolderLock::FolderLock(const fs::path& folder) : handle_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (handle_ < 0) fail("{}: cannot be opened: {}", folder.string(), std::strerror(errno));
  // A file system without locks (some network ones) gives other errors; there nothing can be told, and the run goes on.
  if (::flock(handle_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(handle_);
  fail("{}: another process is writing a run there; wait until it has ended, or choose another --out", folder.string());
}

FolderLock::~FolderLock() {
  ::close(handle_);
}

RunFolder::RunFolder(fs::path path, Files& files) : path_(std::move(path)), files_(files) {
  make_folder(path_);
}

std::optional<Json> RunFolder::read_info(const fs::path& path) {
  const fs::path file = path / "run.json";
  if (!fs::exists(file)) return std::nullopt;
  auto info = Json::parse(read_file(file), nullptr, false);
  if (!info.is_object())
    fail("{}: not a JSON object; the file is damaged, remove the folder and run again", file.string());
  return info;
}

std::string RunFolder::config() const {
  const fs::path file = path_ / "config.toml";
  return fs::exists(file) ? read_file(file) : "";
}

void RunFolder::begin(const std::string& config, const Json& info, std::size_t last_round) {
  if (last_round == 0) {
    for (const char* name :
         {"metrics.jsonl", "model.safetensors", "run.json", "config.toml", "report.html", "clients.json"}) {
      fs::remove(path_ / name);
    }
    fs::remove_all(checkpoint());
    files_.append(path_ / "metrics.jsonl", "");
  } else {
    cut_metrics(last_round);
  }
  make_folder(client_folder());
  files_.replace(path_ / "config.toml", config);
  write_info(info);
}

void RunFolder::write_info(const Json& info) {
  files_.replace(path_ / "run.json", info.dump(1) + "\n");
}

void RunFolder::write_clients(const Json& table) {
  files_.replace(path_ / "clients.json", table.dump(1) + "\n");
}

void RunFolder::append_metrics(const Json& line) {
  files_.append(path_ / "metrics.jsonl", line.dump() + "\n");
}

std::vector<Json> RunFolder::metrics() const {
  std::vector<Json> lines;
  const fs::path file = path_ / "metrics.jsonl";
  if (!fs::exists(file)) return lines;
  std::istringstream text(read_file(file));
  for (std::string line; std::getline(text, line);) {
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
  state.write(files_, checkpoint() / name);
  const Json record = {{"round", round},
                       {"state", name},
                       {"fingerprint", fingerprint(read_file(checkpoint() / name))},
                       {"progress", progress}};
  files_.replace(checkpoint() / "checkpoint.json", record.dump(1) + "\n");
  sweep_states(checkpoint(), name);
}

std::optional<RunFolder::Resumed> RunFolder::resume(State& state) const {
  const fs::path file = checkpoint() / "checkpoint.json";
  if (!fs::exists(file)) return std::nullopt;
  const auto broken = [&](const fs::path& what, const char* why) {
    fail("{}: {}; the checkpoint is damaged: run again without --resume, or restore the file", what.string(), why);
  };
  const auto record = Json::parse(read_file(file), nullptr, false);
  if (!record.is_object() || !record.contains("round") || !record["round"].is_number_unsigned() ||
      !record.contains("state") || !record["state"].is_string() || !record.contains("fingerprint")) {
    broken(file, "not a checkpoint record");
  }
  const fs::path tensors = checkpoint() / record["state"].get<std::string>();
  if (!fs::exists(tensors)) broken(tensors, "missing");
  const std::string bytes = read_file(tensors);
  if (fingerprint(bytes) != record["fingerprint"]) broken(tensors, "its fingerprint does not match");
  const auto round = record["round"].get<std::size_t>();
  state.restore(parse_safetensors(bytes, tensors.string()), tensors.string());
  return Resumed{round, record.value("progress", Json::object())};
}

// A kill can fall between a round's metrics line and its checkpoint; that line will be written again.
void RunFolder::cut_metrics(std::size_t last_round) {
  std::istringstream text(read_file(path_ / "metrics.jsonl"));
  std::string kept;
  for (std::string line; std::getline(text, line);) {
    const auto parsed = Json::parse(line, nullptr, false);
    if (!parsed.is_object() || parsed.value("round", last_round + 1) > last_round) break;
    kept += line + "\n";
  }
  files_.replace(path_ / "metrics.jsonl", kept);
}

void RunFolder::write_model(const State& state) {
  state.write(files_, path_ / "model.safetensors");
}

}  // namespace parley
