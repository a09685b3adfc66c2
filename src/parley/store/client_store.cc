#include "parley/store/client_store.h"

#include <charconv>

#include "parley/base/errors.h"
#include "parley/tensor/safetensors.h"

namespace parley {
namespace {

namespace fs = std::filesystem;

const std::string kNext = "next";
const std::string kRun = "run";

std::optional<std::size_t> number(std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct RecordName {
  std::size_t client;
  std::optional<std::size_t> round;  // none: staged, never committed
};

// "<client>.<round>.safetensors"; nothing for other files.
std::optional<RecordName> parse_name(const fs::path& file) {
  if (file.extension() != ".safetensors") return std::nullopt;
  const std::string stem = file.stem().string();
  const auto dot = stem.find('.');
  if (dot == std::string::npos) return std::nullopt;
  const auto client = number(std::string_view(stem).substr(0, dot));
  if (!client) return std::nullopt;
  return RecordName{*client, number(std::string_view(stem).substr(dot + 1))};
}

}  // namespace

ClientStore::ClientStore(Keep keep, fs::path folder, Files& files, std::string run)
    : keep_(keep), folder_(std::move(folder)), files_(files), run_(std::move(run)) {
  if (!folder_.empty()) make_folder(folder_);
}

fs::path ClientStore::path(std::size_t client, const std::string& version) const {
  return folder_ / fmt::format("{}.{}.safetensors", client, version);
}

void ClientStore::write(std::size_t client, const std::string& version, const ClientRecord& record) const {
  std::vector<TensorView> views;
  for (const auto& [name, values] : record) views.push_back({name, {static_cast<std::int64_t>(values.size())}, values});
  write_safetensors(files_, path(client, version), views, {{kRun, run_}});
}

ClientRecord ClientStore::read(const fs::path& path) const {
  TensorFile file = read_safetensors(path);
  if (file.metadata[kRun] != run_) {
    fail("{}: what this client remembers is of another run{}; put the records of this run back, or start it afresh",
         path.string(), file.metadata[kRun].empty() ? " or an older version" : "");
  }
  ClientRecord record;
  for (auto& [name, tensor] : file.tensors) record[name] = std::move(tensor.values);
  return record;
}

void ClientStore::open_at(std::size_t round) {
  if (!folder_.empty()) {
    for (const auto& file : fs::directory_iterator(folder_)) {
      const auto name = parse_name(file.path());
      if (name && (!name->round || *name->round > round)) fs::remove(file.path());
    }
  }
  read_at(round);
}

void ClientStore::read_at(std::size_t round) {
  records_.clear();
  versions_.clear();
  staged_.clear();
  if (folder_.empty()) return;
  std::map<std::size_t, std::size_t> newest;
  for (const auto& file : fs::directory_iterator(folder_)) {
    const auto name = parse_name(file.path());
    if (!name || !name->round || *name->round > round) continue;
    auto& best = newest[name->client];
    best = std::max(best, *name->round);
  }
  for (const auto& [client, version] : newest) {
    versions_[client] = std::to_string(version);
    if (keep_ == Keep::memory) records_[client] = read(path(client, versions_[client]));
  }
}

std::vector<std::size_t> ClientStore::clients() const {
  std::set<std::size_t> found;
  for (const auto& [client, version] : versions_) found.insert(client);
  for (const auto& [client, record] : records_) found.insert(client);
  return {found.begin(), found.end()};
}

std::optional<ClientRecord> ClientStore::load(std::size_t client) const {
  std::string version;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = records_.find(client); found != records_.end()) return found->second;
    const auto on_disk = versions_.find(client);
    if (on_disk == versions_.end()) return std::nullopt;
    version = on_disk->second;
  }
  return read(path(client, version));
}

void ClientStore::stage(std::size_t client, ClientRecord record) {
  if (keep_ == Keep::disk && !folder_.empty()) {
    write(client, kNext, record);
    const std::lock_guard lock(mutex_);
    staged_[client] = std::nullopt;
    return;
  }
  const std::lock_guard lock(mutex_);
  staged_[client] = std::move(record);
}

void ClientStore::commit(std::size_t round) {
  const std::string version = std::to_string(round);
  for (auto& [client, record] : staged_) {
    if (!folder_.empty()) {
      if (record) {
        write(client, version, *record);
      } else {
        fs::rename(path(client, kNext), path(client, version));
      }
      auto& known = versions_[client];
      if (!known.empty() && known != version) stale_.insert(path(client, known));
      known = version;
    }
    if (record) records_[client] = std::move(*record);
  }
  staged_.clear();
}

void ClientStore::sweep() {
  for (const auto& file : stale_) {
    std::error_code ignored;
    fs::remove(file, ignored);
  }
  stale_.clear();
}

}  // namespace parley
