// Run folders -> ReportData.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "parley/base/counted.h"
#include "parley/base/errors.h"
#include "parley/base/files.h"
#include "parley/report/report.h"
#include "parley/store/folder_lock.h"

namespace parley {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

bool is_run(const fs::path& folder) {
  return fs::exists(folder / "run.json") || fs::exists(folder / "metrics.jsonl");
}

// The folder's own name, also for "runs/demo/" and ".".
std::string name_of(const fs::path& folder) {
  fs::path whole = fs::absolute(folder).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  return whole.filename().string();
}

// Json::parse without its exception, whose message speaks of bytes and states of a parser.
Json parse(std::string_view text) {
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// Their names, or that of the folder that they are in, or their number: as much as a line can hold.
std::string name_of_all(std::span<const fs::path> folders) {
  constexpr std::size_t kNamed = 3;
  std::string names;
  for (const auto& folder : folders) names += (names.empty() ? "" : ", ") + name_of(folder);
  if (folders.size() <= kNamed) return names;
  const fs::path parent = folders.front().parent_path();
  const bool together = !parent.empty() && std::ranges::all_of(folders, [&](const fs::path& folder) {
    return folder.parent_path() == parent;
  });
  return together ? name_of(parent) : counted(folders.size(), "folder");
}

// The members of run.json, each optional; one of the wrong type is refused by name.
class RunFile {
 public:
  RunFile(fs::path path, Json json) : path_(std::move(path)), json_(std::move(json)) {}

  template <class T>
  void get(const char* key, T& target) const {
    get(json_, key, target);
  }
  template <class T>
  void get(const Json& object, const char* key, T& target) const {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) return;
    try {
      target = found->get<T>();
    } catch (const Json::exception&) {
      fail("{}: '{}' is not of the expected type; delete the file or run again with --resume", path_.string(), key);
    }
  }
  template <class T>
  void get(const Json& object, const char* key, std::optional<T>& target) const {
    T value{};
    if (!object.contains(key) || object.at(key).is_null()) return;
    get(object, key, value);
    target = value;
  }
  const Json& json() const { return json_; }

 private:
  fs::path path_;
  Json json_;
};

void read_run_file(const fs::path& path, ReportRun& run) {
  if (!fs::exists(path)) return;
  const RunFile file(path, parse(read_file(path)));
  if (!file.json().is_object()) {
    fail("{}: not a JSON object; delete the file or run again with --resume", path.string());
  }
  file.get("label", run.label);
  file.get("method", run.method);
  file.get("state", run.state);
  // A process that was stopped could not say so itself.
  if (run.state == "running" && !in_use(path.parent_path())) run.state = "interrupted";
  file.get("version", run.version);
  file.get("data", run.data);
  file.get("partition", run.partition);
  file.get("model", run.model);
  file.get(file.json(), "seed", run.seed);
  file.get(file.json(), "rounds", run.planned_rounds);
  file.get(file.json(), "parameters", run.parameters);
  file.get(file.json(), "wall_seconds", run.wall_seconds);
  file.get("label_histogram", run.label_histogram);
  file.get(file.json(), "clients", run.client_count);
  file.get("class_names", run.class_names);
  Json machine = Json::object();
  file.get("machine", machine);
  if (!machine.is_object()) return;
  file.get(machine, "cpu", run.cpu);
  file.get(machine, "cores", run.cores);
  file.get(machine, "threads", run.threads);
}

// What is not a visit is left out, as other numbers are that the report does not know.
void read_visits(const Json& json, ReportRound& round) {
  const auto whole = [](const Json& visit, const char* key) {
    return visit.contains(key) && visit[key].is_number_unsigned();
  };
  const auto real = [](const Json& visit, const char* key) { return visit.contains(key) && visit[key].is_number(); };
  for (const auto& visit : json) {
    if (!visit.is_object() || !whole(visit, "model") || !whole(visit, "node") || !real(visit, "end")) continue;
    auto& read = round.visits.emplace_back(ReportVisit{.model = visit["model"].get<std::int64_t>(),
                                                       .node = visit["node"].get<std::int64_t>(),
                                                       .end = visit["end"].get<double>()});
    if (real(visit, "before") && real(visit, "after")) {
      read.gain = visit["after"].get<double>() - visit["before"].get<double>();
    }
  }
}

// Square, or left out.
void read_confusion(const Json& line, ReportRun& run) {
  if (!line.contains("confusion")) return;
  try {
    auto counts = line["confusion"].get<std::vector<std::vector<std::int64_t>>>();
    if (std::ranges::all_of(counts, [&](const auto& row) { return row.size() == counts.size(); })) {
      run.confusion = std::move(counts);
    }
  } catch (const Json::exception&) {
  }
}

void read_reliability(const Json& line, ReportRun& run) {
  if (!line.contains("reliability") || !line["reliability"].is_array()) return;
  run.reliability.clear();
  for (const auto& bin : line["reliability"]) {
    if (!bin.is_array() || bin.size() != 3 || !std::ranges::all_of(bin, [](const Json& x) { return x.is_number(); })) {
      continue;
    }
    run.reliability.push_back({bin[0].get<std::int64_t>(), bin[1].get<double>(), bin[2].get<std::int64_t>()});
  }
}

// One line, or why not.
std::string parse_round(const Json& json, ReportRound& round) {
  if (!json.is_object()) return "not a JSON object";
  const auto number = json.find("round");
  if (number == json.end() || !number->is_number_integer()) return "no whole number 'round'";
  round.round = number->get<std::int64_t>();
  for (const auto& [key, value] : json.items()) {
    if (key != "round" && value.is_number()) round.values[key] = value.get<double>();
  }
  if (const auto refused = json.find("refused"); refused != json.end() && refused->is_array()) {
    for (const auto& name : *refused) {
      round.refused.push_back(name.is_string() ? name.get<std::string>() : name.dump());
    }
  }
  if (const auto visits = json.find("visits"); visits != json.end() && visits->is_array()) read_visits(*visits, round);
  return "";
}

void read_clients(const fs::path& path, ReportRun& run) {
  if (!fs::exists(path)) return;
  const Json table = parse(read_file(path));
  if (!table.is_array()) fail("{}: not a JSON list; delete the file or run again with --overwrite", path.string());
  const auto difference = [](const Json& row, const char* less, const char* more) -> std::optional<double> {
    if (!row.is_object() || !row.contains(less) || !row[less].is_number()) return {};
    if (!row.contains(more) || !row[more].is_number()) return {};
    return row[more].get<double>() - row[less].get<double>();
  };
  for (const auto& row : table) {
    const auto points = difference(row, "s_accuracy", "mt_accuracy");
    if (points) {
      run.clients.push_back({.gain = 100.0 * *points, .classified = true});
    } else {
      run.clients.push_back({.gain = difference(row, "mt_loss", "s_loss")});
    }
  }
}

void read_metrics(const fs::path& path, ReportRun& run) {
  if (!fs::exists(path)) return;
  const std::string text = read_file(path);
  std::size_t line_number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    const bool torn = end == text.size() && run.state != "done";
    begin = end + 1;
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    ReportRound round;
    const Json json = parse(line);
    std::string wrong = parse_round(json, round);
    if (!wrong.empty() && torn) break;
    if (wrong.empty() && !run.rounds.empty() && round.round <= run.rounds.back().round) {
      wrong = fmt::format("round {} after round {}", round.round, run.rounds.back().round);
    }
    if (!wrong.empty()) {
      fail("{}:{}: {}; remove the line, or do the run again", path.string(), line_number, wrong);
    }
    run.rounds.push_back(std::move(round));
    read_confusion(json, run);
    read_reliability(json, run);
  }
}

ReportRun read_run(const fs::path& folder) {
  ReportRun run;
  run.name = name_of(folder);
  read_run_file(folder / "run.json", run);
  read_metrics(folder / "metrics.jsonl", run);
  read_clients(folder / "clients.json", run);
  if (fs::exists(folder / "config.toml")) run.config = read_file(folder / "config.toml");
  if (run.label.empty()) run.label = run.method.empty() ? run.name : run.method;
  return run;
}

// The folder itself, or the run folders in it, by name.
std::vector<fs::path> runs_of(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    fail("{}: no such folder; give a run folder, or a folder of run folders", folder.string());
  }
  if (is_run(folder)) return {folder};
  std::vector<fs::path> result;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_directory() && is_run(entry.path())) result.push_back(entry.path());
  }
  if (error) fail("{}: cannot be read: {}; check its permissions", folder.string(), error.message());
  if (result.empty()) {
    fail("{}: no runs in it (a run folder has run.json and metrics.jsonl); 'parley run FILE.toml --out {}' makes one",
         folder.string(), folder.string());
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace

ReportData read_runs(std::span<const fs::path> folders) {
  if (folders.empty()) fail("no run folder given; 'parley report DIR…' takes run folders or folders of them");
  ReportData data;
  data.name = name_of_all(folders);
  std::set<fs::path> seen;
  for (const auto& folder : folders) {
    for (const auto& path : runs_of(folder)) {
      if (seen.insert(fs::canonical(path)).second) data.runs.push_back(read_run(path));
    }
  }
  return data;
}

}  // namespace parley
