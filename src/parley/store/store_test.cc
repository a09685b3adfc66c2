#include <gtest/gtest.h>

#include <fstream>

#include "parley/base/errors.h"
#include "parley/base/temp_folder.h"
#include "parley/store/client_store.h"
#include "parley/store/folder_lock.h"
#include "parley/store/run_folder.h"

namespace parley {
namespace {

// Without the pains that real_files() takes to make it last.
void write_bytes(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

State one_number(float value) {
  State state;
  state.add("theta", std::make_shared<const Layout>(std::vector<LayoutEntry>{{"w", {1}}}), true, {value});
  return state;
}

class ClientStores : public testing::TestWithParam<ClientStore::Keep> {
 protected:
  // As a new process would.
  ClientStore& open(std::size_t round) {
    store_.emplace(GetParam(), folder_ / "clients", real_files());
    store_->open_at(round);
    return *store_;
  }
  static ClientRecord record(float value) { return {{"c", Flat{value, 1.0f}}}; }
  TempFolder folder_;
  std::optional<ClientStore> store_;
};

TEST_P(ClientStores, StageCommitLoad) {
  auto& store = open(0);
  EXPECT_FALSE(store.load(7));
  store.stage(7, record(1));
  EXPECT_FALSE(store.load(7)) << "staged is not committed";
  store.commit(1);
  store.save(1);
  EXPECT_EQ(store.load(7), record(1));
}

// A kill after the records of round 3 were written, but before its checkpoint: round 2's must come back.
TEST_P(ClientStores, ReopensAtTheCheckpointsRound) {
  {
    auto& store = open(0);
    store.stage(1, record(1));
    store.stage(2, record(10));
    store.commit(1);
    store.save(1);
    store.sweep();
    store.stage(1, record(2));
    store.commit(2);
    store.save(2);
    store.sweep();
    store.stage(1, record(3));
    store.stage(3, record(30));
    store.commit(3);
    store.save(3);
    store.stage(2, record(99));  // staged, never committed
  }
  auto& store = open(2);
  EXPECT_EQ(store.load(1), record(2));
  EXPECT_EQ(store.load(2), record(10));
  EXPECT_FALSE(store.load(3));
}

// Rounds that share a checkpoint: what the last one saves is of that checkpoint, and what was there before stays until
// it is safe.
TEST_P(ClientStores, SavesSeveralRoundsAtOnce) {
  {
    auto& store = open(0);
    store.stage(1, record(1));
    store.commit(1);
    store.save(1);
    store.sweep();
    store.stage(1, record(2));
    store.commit(2);
    store.stage(1, record(3));
    store.stage(2, record(30));
    store.commit(3);
    EXPECT_EQ(store.load(1), record(3));
  }
  EXPECT_EQ(open(1).load(1), record(1)) << "killed before the checkpoint of round 3";
  EXPECT_FALSE(store_->load(2));
  store_->stage(1, record(4));
  store_->commit(2);
  store_->stage(2, record(40));
  store_->commit(3);
  store_->save(3);
  store_->sweep();
  EXPECT_EQ(open(3).load(1), record(4));
  EXPECT_EQ(store_->load(2), record(40));
}

// As when a finished run is evaluated while another process makes it longer.
TEST_P(ClientStores, WhoOnlyReadsTouchesNoFile) {
  {
    auto& store = open(0);
    store.stage(1, record(1));
    store.commit(1);
    store.save(1);
    store.stage(1, record(2));
    store.stage(3, record(30));
    store.commit(2);
    store.save(2);
    store.stage(1, record(99));
  }
  ClientStore reader(GetParam(), folder_ / "clients", real_files());
  reader.read_at(1);
  EXPECT_EQ(reader.load(1), record(1));
  EXPECT_FALSE(reader.load(3));
  EXPECT_EQ(reader.clients(), std::vector<std::size_t>{1});
  EXPECT_EQ(open(2).load(1), record(2));
  EXPECT_EQ(store_->clients(), (std::vector<std::size_t>{1, 3}));
}

TEST_P(ClientStores, ARecordOfAnotherRunIsRefused) {
  {
    ClientStore theirs(GetParam(), folder_ / "clients", real_files(), "theirs");
    theirs.stage(1, record(1));
    theirs.commit(1);
    theirs.save(1);
    EXPECT_EQ(theirs.load(1), record(1));
  }
  ClientStore ours(GetParam(), folder_ / "clients", real_files(), "ours");
  try {
    ours.open_at(1);
    ours.load(1);
    FAIL() << "expected InputError";
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(), (folder_ / "clients" / "1.1.safetensors").string() +
                                ": what this client remembers is of another run; put the records of this run back, or "
                                "begin again with --overwrite");
  }
}

// Every byte of it, one at a time.
TEST_P(ClientStores, ADamagedRecordIsRefused) {
  {
    auto& store = open(0);
    store.stage(1, record(1));
    store.commit(1);
    store.save(1);
  }
  const auto file = folder_ / "clients" / "1.1.safetensors";
  const std::string whole = read_file(file);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    write_bytes(file, bytes);
    EXPECT_THROW(open(1).load(1), InputError) << "byte " << at;
    EXPECT_THROW(store_->read_at(1), InputError) << "byte " << at;
  }
  real_files().replace(file, whole);
  EXPECT_EQ(open(1).load(1), record(1));
  EXPECT_NO_THROW(store_->read_at(1));
}

TEST_P(ClientStores, ARecordOfAnotherClientIsRefused) {
  {
    auto& store = open(0);
    store.stage(1, record(1));
    store.stage(2, record(2));
    store.commit(1);
    store.save(1);
  }
  std::filesystem::copy_file(folder_ / "clients" / "2.1.safetensors", folder_ / "clients" / "1.1.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  try {
    open(1).load(1);
    FAIL() << "expected InputError";
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(), (folder_ / "clients" / "1.1.safetensors").string() +
                                ": this is what client 2 remembers; put the record of client 1 back, or "
                                "begin again with --overwrite");
  }
}

INSTANTIATE_TEST_SUITE_P(Keep, ClientStores, testing::Values(ClientStore::Keep::memory, ClientStore::Keep::disk),
                         [](const auto& test) { return test.param == ClientStore::Keep::disk ? "disk" : "memory"; });

TEST(RunFolder, ResumesAtTheLastCheckpoint) {
  const TempFolder temp;
  {
    RunFolder folder(temp / "run", real_files());
    folder.begin("config", {{"state", "running"}});
    folder.append_metrics({{"round", 1}});
    folder.write_checkpoint(1, one_number(1.5f), {{"seconds", 2.0}});
    folder.append_metrics({{"round", 2}});  // killed before the checkpoint of round 2
  }
  RunFolder folder(temp / "run", real_files());
  State state = one_number(0.0f);
  const auto resumed = folder.resume(state);
  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->round, 1u);
  EXPECT_EQ(resumed->progress["seconds"], 2.0);
  EXPECT_EQ(state.at("theta")[0], 1.5f);
  folder.begin("config", {{"state", "running"}}, *resumed);
  EXPECT_EQ(folder.metrics().size(), 1u);
}

TEST(RunFolder, ADamagedCheckpointIsRefusedAndNothingChanges) {
  const TempFolder temp;
  RunFolder folder(temp / "run", real_files());
  folder.begin("config", {{"state", "running"}});
  folder.write_checkpoint(1, one_number(1.5f), {});
  const auto file = temp / "run" / "checkpoint" / "state.1.safetensors";
  std::string bytes = read_file(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  real_files().replace(file, bytes);
  State state = one_number(0.0f);
  try {
    folder.resume(state);
    FAIL() << "expected InputError";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("state.1.safetensors: its checksum does not match"), std::string::npos);
  }
  EXPECT_EQ(state.at("theta")[0], 0.0f);
  // A state that is sound, but not the one of this checkpoint.
  one_number(7.0f).write(real_files(), file);
  EXPECT_THROW(folder.resume(state), InputError);
  EXPECT_EQ(state.at("theta")[0], 0.0f);
}

TEST(RunFolder, EveryDamageOfTheCheckpointRecordIsFound) {
  const TempFolder temp;
  RunFolder folder(temp / "run", real_files());
  folder.begin("config", {{"state", "running"}});
  folder.write_checkpoint(1, one_number(1.5f), {{"seconds", 2.25}, {"engine", {1, 2.0, nullptr}}});
  const auto file = temp / "run" / "checkpoint" / "checkpoint.json";
  const std::string whole = read_file(file);
  State state = one_number(0.0f);
  EXPECT_EQ(folder.resume(state)->round, 1u);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    if (std::isspace(static_cast<unsigned char>(whole[at]))) continue;
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    write_bytes(file, bytes);
    EXPECT_THROW(folder.resume(state), InputError) << "byte " << at;
  }
}

TEST(RunFolder, LostOrChangedMetricsAreRefusedAndNothingChanges) {
  const TempFolder temp;
  RunFolder folder(temp / "run", real_files());
  folder.begin("config", {{"state", "running"}});
  folder.append_metrics({{"round", 1}, {"loss", 0.5}});
  folder.append_metrics({{"round", 2}, {"loss", 0.25}});
  folder.write_checkpoint(2, one_number(1.5f), {});
  State state = one_number(0.0f);
  const auto resumed = folder.resume(state);
  const auto file = temp / "run" / "metrics.jsonl";
  const std::string whole = read_file(file);
  const std::string first = whole.substr(0, whole.find('\n') + 1);
  for (const std::string& damaged : {std::string(), first, std::string(whole).replace(2, 1, "R"), first + first}) {
    real_files().replace(file, damaged);
    try {
      RunFolder(temp / "run", real_files()).begin("other", {}, *resumed);
      FAIL() << "expected InputError for " << damaged;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("metrics.jsonl: not the rounds that the run has written"),
                std::string::npos);
    }
    EXPECT_EQ(folder.config(), "config");
    EXPECT_EQ(read_file(file), damaged);
  }
  std::filesystem::remove(file);
  EXPECT_THROW(folder.metrics(resumed->metrics), InputError);
  real_files().replace(file, whole + "{\"round\":3}\n");
  EXPECT_EQ(folder.metrics(resumed->metrics).size(), 2u);
  folder.begin("config", {}, *resumed);
  EXPECT_EQ(read_file(file), whole);
}

TEST(RunFolder, AFullDiskLeavesTheOldCheckpoint) {
  const TempFolder temp;
  RunFolder(temp / "run", real_files()).begin("config", {{"state", "running"}});
  RunFolder(temp / "run", real_files()).write_checkpoint(1, one_number(1.5f), {});
  LimitedFiles full(10);
  RunFolder folder(temp / "run", full);
  EXPECT_THROW(folder.write_checkpoint(2, one_number(9.0f), {}), RunError);
  State state = one_number(0.0f);
  EXPECT_EQ(folder.resume(state)->round, 1u);
  EXPECT_EQ(state.at("theta")[0], 1.5f);
}

// By another handle, as another process has one.
TEST(FolderLock, HasOneOwnerAtATime) {
  const TempFolder folder;
  std::optional<FolderLock> owner(std::in_place, folder.path());
  try {
    const FolderLock other(folder.path());
    FAIL() << "two owners";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("another process is writing a run there"), std::string::npos);
  }
  EXPECT_TRUE(in_use(folder.path()));
  owner.reset();
  EXPECT_FALSE(in_use(folder.path()));
  EXPECT_NO_THROW(FolderLock(folder.path()));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_THROW(FolderLock(folder / "nowhere"), InputError);
}

}  // namespace
}  // namespace parley
