#include "parley/wire/journal.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include "parley/base/errors.h"
#include "parley/data/digest.h"
#include "parley/wire/log.h"

namespace parley::wire {
namespace {

constexpr const char* kTables = R"(
create table if not exists journal (run text not null);
create table if not exists members (client integer primary key, name text not null unique, examples integer not null,
                                    moments text not null);
create table if not exists accepted (client integer not null, round integer not null, invitation integer not null,
                                     primary key (client, round));
create table if not exists audit (number integer primary key, time text not null, event text not null,
                                  node text not null, round integer not null, detail text not null, hash text not null);
)";

// A prepared statement: bind in order, then step through the rows.
class Statement {
 public:
  Statement(sqlite3* database, const std::string& name, const char* text) : database_(database), name_(name) {
    if (sqlite3_prepare_v2(database, text, -1, &handle_, nullptr) != SQLITE_OK) complain();
  }
  ~Statement() { sqlite3_finalize(handle_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& with(std::string_view text) {
    sqlite3_bind_text(handle_, ++bound_, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
    return *this;
  }
  Statement& with(std::int64_t number) {
    sqlite3_bind_int64(handle_, ++bound_, number);
    return *this;
  }
  Statement& with(std::size_t number) { return with(static_cast<std::int64_t>(number)); }
  // Whether there is a row.
  bool step() {
    const int result = sqlite3_step(handle_);
    if (result != SQLITE_ROW && result != SQLITE_DONE) complain();
    return result == SQLITE_ROW;
  }
  void again() {
    sqlite3_reset(handle_);
    bound_ = 0;
  }
  std::int64_t number(int column) const { return sqlite3_column_int64(handle_, column); }
  std::string text(int column) const {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
    return bytes == nullptr ? "" : std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(handle_, column)));
  }

 private:
  [[noreturn]] void complain() const {
    fail<RunError>("{}: {}; see that there is room on the disk", name_, sqlite3_errmsg(database_));
  }

  sqlite3* database_;
  const std::string& name_;
  sqlite3_stmt* handle_ = nullptr;
  int bound_ = 0;
};

// Lengths stand before the texts, so that no two entries are written alike.
std::string hash_of(const AuditEntry& entry, const std::string& before) {
  std::string bytes = fmt::format("{}\n{}\n{}\n", before, entry.number, entry.round);
  for (const std::string* part : {&entry.time, &entry.event, &entry.node, &entry.detail}) {
    bytes += fmt::format("{}:{}\n", part->size(), *part);
  }
  return hex_digest("sha256", bytes);
}

}  // namespace

Journal::Journal(const std::filesystem::path& file, const std::string& run_name) : name_(file.string()) {
  if (sqlite3_open(name_.c_str(), &database_) != SQLITE_OK) {
    const std::string reason = sqlite3_errmsg(database_);
    sqlite3_close(database_);
    fail("{}: cannot be opened: {}", name_, reason);
  }
  sqlite3_busy_timeout(database_, 5000);
  try {
    run("pragma journal_mode = wal");
    run("pragma synchronous = normal");
    run(kTables);
    Statement known(database_, name_, "select run from journal");
    if (!known.step()) {
      Statement(database_, name_, "insert into journal values (?)").with(run_name).step();
    } else if (known.text(0) != run_name) {
      fail("{}: this is the journal of a run with other settings; use those, or another --out", name_);
    }
    Statement last(database_, name_, "select number, hash from audit order by number desc limit 1");
    if (last.step()) {
      entries_ = last.number(0);
      head_ = last.text(1);
    }
  } catch (...) {
    sqlite3_close(database_);
    throw;
  }
}

Journal::~Journal() {
  sqlite3_close(database_);
}

void Journal::run(const std::string& statement) const {
  char* reason = nullptr;
  if (sqlite3_exec(database_, statement.c_str(), nullptr, nullptr, &reason) == SQLITE_OK) return;
  const std::string text = reason == nullptr ? "unknown" : reason;
  sqlite3_free(reason);
  fail<RunError>("{}: {}; see that there is room on the disk", name_, text);
}

std::vector<Member> Journal::members() const {
  const std::lock_guard lock(mutex_);
  std::vector<Member> found;
  Statement rows(database_, name_, "select name, client, examples, moments from members order by client");
  while (rows.step()) {
    found.push_back({rows.text(0), static_cast<std::size_t>(rows.number(1)), static_cast<std::size_t>(rows.number(2)),
                     rows.text(3)});
  }
  return found;
}

void Journal::remember(std::span<const Member> members) {
  const std::lock_guard lock(mutex_);
  run("begin");
  run("delete from members");
  Statement insert(database_, name_, "insert into members (name, client, examples, moments) values (?, ?, ?, ?)");
  for (const auto& member : members) {
    insert.with(member.name).with(member.client).with(member.examples).with(member.moments).step();
    insert.again();
  }
  run("commit");
}

std::map<std::size_t, std::size_t> Journal::begin_round(std::size_t round) {
  const std::lock_guard lock(mutex_);
  Statement(database_, name_, "delete from accepted where round >= ?").with(round).step();
  std::map<std::size_t, std::size_t> last;
  Statement rows(database_, name_, "select client, invitation, max(round) from accepted group by client");
  while (rows.step()) last[static_cast<std::size_t>(rows.number(0))] = static_cast<std::size_t>(rows.number(1));
  return last;
}

void Journal::accepted(std::size_t round, std::span<const Counted> answers) {
  const std::lock_guard lock(mutex_);
  run("pragma synchronous = full");  // a checkpoint that survives a power cut must find this
  run("begin");
  Statement insert(database_, name_, "insert into accepted (client, round, invitation) values (?, ?, ?)");
  for (const Counted& answer : answers) {
    insert.with(answer.client).with(round).with(answer.invitation).step();
    insert.again();
  }
  // Of each client's earlier rounds only the last can still be asked for.
  Statement(database_, name_,
            "delete from accepted where round < ?1 and exists (select 1 from accepted as later where later.client = "
            "accepted.client and later.round > accepted.round and later.round < ?1)")
      .with(round)
      .step();
  run("commit");
  run("pragma synchronous = normal");
}

void Journal::audit(std::string_view event, std::string_view node, std::size_t round, std::string_view detail) {
  const std::lock_guard lock(mutex_);
  AuditEntry entry{.number = entries_ + 1,
                   .time = timestamp(),
                   .event = std::string(event),
                   .node = std::string(node),
                   .round = static_cast<std::int64_t>(round),
                   .detail = std::string(detail)};
  entry.hash = hash_of(entry, head_);
  Statement(database_, name_, "insert into audit values (?, ?, ?, ?, ?, ?, ?)")
      .with(entry.number)
      .with(entry.time)
      .with(entry.event)
      .with(entry.node)
      .with(entry.round)
      .with(entry.detail)
      .with(entry.hash)
      .step();
  entries_ = entry.number;
  head_ = entry.hash;
}

std::string Journal::head() const {
  const std::lock_guard lock(mutex_);
  return head_;
}

std::vector<AuditEntry> read_audit(const std::filesystem::path& file) {
  const std::string name = file.string();
  sqlite3* database = nullptr;
  const int opened = sqlite3_open_v2(name.c_str(), &database, SQLITE_OPEN_READONLY, nullptr);
  const std::unique_ptr<sqlite3, int (*)(sqlite3*)> owner(database, sqlite3_close);
  if (opened != SQLITE_OK) fail("{}: cannot be opened: {}", name, sqlite3_errmsg(database));
  std::vector<AuditEntry> entries;
  try {
    Statement rows(database, name, "select number, time, event, node, round, detail, hash from audit order by number");
    while (rows.step()) {
      entries.push_back(
          {rows.number(0), rows.text(1), rows.text(2), rows.text(3), rows.number(4), rows.text(5), rows.text(6)});
    }
  } catch (const RunError&) {
    fail("{}: this is not the journal of a federation", name);
  }
  return entries;
}

std::int64_t first_broken(std::span<const AuditEntry> entries) {
  std::string before;
  std::int64_t expected = 1;
  for (const auto& entry : entries) {
    if (entry.number != expected++ || entry.hash != hash_of(entry, before)) return entry.number;
    before = entry.hash;
  }
  return 0;
}

}  // namespace parley::wire
