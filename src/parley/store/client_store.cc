#include "parley/store/client_store.h"

#include <charconv>

#include "parley/base/errors.h"
#include "parley/tensor/safetensors.h"

namespace parley {
namespace {

namespace fs = std::filesystem;

const std::string kNext = "next";
const std::string kRun = "run";
const std::string kClient = "client";

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
  write_safetensors(files_, path(client, version), views, {{kRun, run_}, {kClient, std::to_string(client)}});
}

ClientRecord ClientStore::read(std::size_t client, const std::string& version) const {
  const std::string name = path(client, version).string();
  TensorFile file = read_safetensors(name);
  file.require_checksum(name);
  if (file.metadata[kRun] != run_) {
    fail(
        "{}: what this client remembers is of another run; put the records of this run back, or begin again with "
        "--overwrite",
        name);
  }
  if (file.metadata[kClient] != std::to_string(client)) {
    fail("{}: this is what client {} remembers; put the record of client {} back, or begin again with --overwrite",
         name, file.metadata[kClient], client);
  }
  ClientRecord record;
  for (auto& [key, tensor] : file.tensors) record[key] = std::move(tensor.values);
  return record;
}

void ClientStore::forget_after(std::size_t round) const {
  if (folder_.empty()) return;
  for (const auto& file : fs::directory_iterator(folder_)) {
    const auto name = parse_name(file.path());
    if (name && (!name->round || *name->round > round)) fs::remove(file.path());
  }
}

void ClientStore::open_at(std::size_t round) {
  forget_after(round);
  read_at(round);
}

std::map<std::size_t, std::size_t> ClientStore::newest_at(std::size_t round) const {
  std::map<std::size_t, std::size_t> newest;
  if (folder_.empty()) return newest;
  for (const auto& file : fs::directory_iterator(folder_)) {
    const auto name = parse_name(file.path());
    if (!name || !name->round || *name->round > round) continue;
    auto& best = newest[name->client];
    best = std::max(best, *name->round);
  }
  return newest;
}

void ClientStore::read_at(std::size_t round) {
  records_.clear();
  versions_.clear();
  staged_.clear();
  unsaved_.clear();
  for (const auto& [client, version] : newest_at(round)) {
    versions_[client] = std::to_string(version);
    ClientRecord record = read(client, versions_[client]);
    if (keep_ == Keep::memory) records_[client] = std::move(record);
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
  return read(client, version);
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
    if (record) {
      records_[client] = std::move(*record);
      unsaved_.insert(client);
    } else {
      fs::rename(path(client, kNext), path(client, version));
      replace_version(client, version);
    }
  }
  staged_.clear();
}

void ClientStore::save(std::size_t round) {
  if (folder_.empty()) return;
  const std::string version = std::to_string(round);
  for (const std::size_t client : unsaved_) {
    write(client, version, records_.at(client));
    replace_version(client, version);
  }
  unsaved_.clear();
}

void ClientStore::replace_version(std::size_t client, const std::string& version) {
  auto& known = versions_[client];
  if (!known.empty() && known != version) stale_.insert(path(client, known));
  known = version;
}

void ClientStore::sweep() {
  for (const auto& file : stale_) {
    std::error_code ignored;
    fs::remove(file, ignored);
  }
  stale_.clear();
}

}  // namespace parley
