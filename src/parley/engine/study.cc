#include "parley/engine/study.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "parley/base/errors.h"

namespace parley {
namespace {

// A label as the name of a folder.
std::string folder_name(const std::string& label) {
  std::string name;
  for (const char c : label) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '=' || c == '-' || c == '_';
    name += plain ? c : '-';
  }
  return name;
}

// The file's settings with one method in place of its own.
Config with_method(const Config& file, const std::string& spec, std::string& label) {
  Config config = file;
  config.share();
  const auto parts = split_outside_lists(spec, ':');
  if (parts.empty() || parts[0].empty()) fail("--methods: expected names such as fedavg,fedprox:mu=0.1");
  if (parts[0].find(' ') != std::string::npos) fail("--methods: '{}': put commas between methods", parts[0]);
  // The plain keys of [method] are meant for the method that the file names, not for its rivals.
  if (parts[0] != config.text("method", "name", "fedavg")) config.erase("method");
  config.set("method", "name", parts[0]);
  label = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::string key = parts[i].substr(0, parts[i].find('='));
    config.set(key.find('.') == std::string::npos ? "method." + parts[i] : parts[i]);
    label += " " + parts[i];
  }
  return config;
}

void refuse_repeated(const std::vector<std::int64_t>& seeds) {
  std::set<std::int64_t> seen;
  for (const auto seed : seeds) {
    if (!seen.insert(seed).second) fail("--seeds: {} is named twice, and would count twice", seed);
  }
}

// Each method of --methods with the settings it runs with.
std::vector<std::pair<std::string, Config>> with_methods(const Config& config,
                                                         const std::vector<std::string>& methods) {
  std::vector<std::pair<std::string, Config>> chosen;
  std::set<std::string> labels;
  for (const auto& spec : methods) {
    std::string label;
    Config changed = with_method(config, spec, label);
    if (!labels.insert(label).second) fail("--methods: '{}' is named twice", label);
    chosen.emplace_back(label, std::move(changed));
  }
  return chosen;
}

// Nobody waits for a million runs; better to hear of them before the first than to wonder.
void require_sane_number(const Config& config, const std::vector<std::string>& keys, std::size_t repeats) {
  constexpr double kMostRuns = 10'000;
  double runs = static_cast<double>(repeats);
  std::vector<std::string> lengths;
  for (const auto& key : keys) {
    const auto items = config.items("sweep", key);
    if (std::set(items.begin(), items.end()).size() < items.size()) {
      config.refuse("sweep", key, "a value stands in this list twice, and would be run twice");
    }
    runs *= static_cast<double>(items.size());
    lengths.push_back(fmt::format("{} of {}", items.size(), key));
  }
  if (runs <= kMostRuns) return;
  fail("{}: a sweep of {:.0f} runs ({}{}); expected at most {:.0f}: shorten a list, or split the sweep",
       config.where("sweep", ""), runs, fmt::join(lengths, ", "),
       repeats > 1 ? fmt::format(", {} of methods and seeds", repeats) : "", kMostRuns);
}

// Every combination of the lists in [sweep], as assignments "section.key=value", each of which is run `repeats` times.
std::vector<std::vector<std::string>> sweep_points(const Config& config, std::size_t repeats) {
  std::vector<std::string> keys = config.keys("sweep");
  if (keys.empty()) {
    fail("{}: no [sweep] section; expected lists such as client.lr = [0.1, 0.01]", config.where("sweep", ""));
  }
  std::ranges::sort(keys);
  require_sane_number(config, keys, repeats);
  std::vector<std::vector<std::string>> points{{}};
  for (const auto& key : keys) {
    if (key.find('.') == std::string::npos) config.refuse("sweep", key, "expected section.key, for example client.lr");
    std::vector<std::vector<std::string>> extended;
    for (const auto& before : points) {
      for (const auto& item : config.items("sweep", key)) {
        extended.push_back(before);
        extended.back().push_back(key + "=" + item);
      }
    }
    points = std::move(extended);
  }
  return points;
}

StudyRun sweep_run(Config config, const std::string& method, std::vector<std::string> assignment,
                   const std::string& seed, const Catalogue& catalogue, const std::filesystem::path& out) {
  if (!seed.empty()) assignment.push_back(seed);
  std::vector<std::string> shown, folder;
  if (!method.empty()) folder.push_back(method);
  for (const auto& text : assignment) {
    config.set(text);
    folder.push_back(text);
    if (!text.starts_with("run.seed=")) shown.push_back(text);
  }
  Settings settings = resolve(config, catalogue);
  const std::string point = fmt::format("{}", fmt::join(shown, " "));
  std::string label = method.empty() ? point : fmt::format("{} {}", method, point);
  if (label.empty()) label = settings.method.text("name");
  const auto seed_number = settings.run.integer("seed");
  return {label,
          method,
          point,
          seed_number,
          std::move(settings),
          out / folder_name(fmt::format("{}", fmt::join(folder, "_")))};
}

// A run of an older version lacks the keys that came since; they had their defaults.
bool has_same_settings(const StudyRun& run, const Catalogue& catalogue) {
  const std::string stored = RunFolder(run.folder, real_files()).config();
  const std::string wanted = run.settings.to_toml();
  if (stored == wanted) return true;
  try {
    return resolve(Config::parse(stored), catalogue).to_toml() == wanted;
  } catch (const InputError&) {
    return false;  // a key that is gone
  }
}

enum class Todo { nothing, resume, begin };

// What is left to do about a run. Throws InputError when its folder holds another one, which nobody asked to replace.
Todo todo(const StudyRun& run, const Catalogue& catalogue, bool overwrite) {
  const auto info = RunFolder::read_info(run.folder);
  if (!info || info->value("state", "") == RunFolder::kBeginning) return Todo::begin;
  const bool done = info->value("state", "") == "done";
  if (done && has_same_settings(run, catalogue)) return Todo::nothing;
  const std::string there = RunFolder(run.folder, real_files()).config(), here = run.settings.to_toml();
  const bool same = same_but_for_rounds(there, here) && info->value("rounds", 0) <= run.settings.run.integer("rounds");
  const bool has_checkpoint = std::filesystem::exists(run.folder / "checkpoint" / "checkpoint.json");
  if (same && has_checkpoint) return Todo::resume;
  if (overwrite || (same && !done)) return Todo::begin;
  const std::string difference = first_difference(there, here);
  fail("{}: holds a run with other settings ({}); replace it with --overwrite, or choose another --out",
       run.folder.string(), difference.empty() ? "run.rounds" : difference);
}

// Throws InputError when they are not those that the run ended with.
std::vector<Json> finished_metrics(const std::filesystem::path& folder) {
  const Json info = RunFolder::read_info(folder).value_or(Json::object());
  const Json checksum = info.value("checksums", Json::object()).value("metrics.jsonl", Json());
  auto lines = RunFolder(folder, real_files())
                   .metrics(checksum.is_string() ? std::optional(checksum.get<std::string>()) : std::nullopt);
  if (lines.empty()) {
    fail("{}: empty, though the run is done; the file is damaged: restore it, or remove the folder to run again",
         (folder / "metrics.jsonl").string());
  }
  return lines;
}

StudyResult run_one(const StudyRun& run, const Catalogue& catalogue, DataCache& cache, RunControls controls) {
  const Todo left = todo(run, catalogue, controls.overwrite);
  if (left == Todo::nothing) return {&run, RunFate::done_before, finished_metrics(run.folder)};
  controls.resume = left == Todo::resume;
  controls.label = run.label;
  const Experiment experiment = build(run.settings, catalogue, cache);
  auto summary = run_experiment(experiment, run.folder, controls);
  return {&run, summary.resumed_from > 0 ? RunFate::resumed : RunFate::fresh, std::move(summary.metrics)};
}

}  // namespace

std::vector<std::string> split_outside_lists(const std::string& text, char at) {
  std::vector<std::string> parts{""};
  int depth = 0;
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    if (!quoted && c == '[') ++depth;
    if (!quoted && c == ']') --depth;
    if (c == at && depth == 0 && !quoted) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::vector<StudyRun> plan_compare(const Config& config, const std::vector<std::string>& methods,
                                   const std::vector<std::int64_t>& seeds, const Catalogue& catalogue,
                                   const std::filesystem::path& out) {
  refuse_repeated(seeds);
  std::vector<StudyRun> runs;
  for (const auto& [label, changed] : with_methods(config, methods)) {
    for (const auto seed : seeds) {
      Config one = changed;
      one.set("run", "seed", seed);
      runs.push_back(
          {label, label, "", seed, resolve(one, catalogue), out / fmt::format("{}-s{}", folder_name(label), seed)});
    }
  }
  return runs;
}

std::vector<StudyRun> plan_sweep(const Config& config, const std::vector<std::string>& methods,
                                 const std::vector<std::int64_t>& seeds, const Catalogue& catalogue,
                                 const std::filesystem::path& out) {
  const auto refuse_twice = [&](bool given, const char* key, const char* option) {
    if (given && config.has("sweep", key)) config.refuse("sweep", key, fmt::format("{} is given as well", option));
  };
  refuse_twice(!methods.empty(), "method.name", "--methods");
  refuse_twice(!seeds.empty(), "run.seed", "--seeds");
  refuse_repeated(seeds);
  auto chosen = with_methods(config, methods);
  if (chosen.empty()) chosen.emplace_back("", config).second.share();
  std::vector<std::string> seed_texts{""};
  if (!seeds.empty()) seed_texts.clear();
  for (const auto seed : seeds) seed_texts.push_back(fmt::format("run.seed={}", seed));

  std::vector<StudyRun> runs;
  for (const auto& assignment : sweep_points(config, chosen.size() * seed_texts.size())) {
    for (const auto& [method, changed] : chosen) {
      for (const auto& seed : seed_texts) runs.push_back(sweep_run(changed, method, assignment, seed, catalogue, out));
    }
  }
  return runs;
}

std::vector<StudyResult> run_study(const std::vector<StudyRun>& runs, const Catalogue& catalogue,
                                   const RunControls& controls, const StudyHooks& hooks) {
  DataCache cache;
  // Hours into a comparison is too late to hear that one of its methods cannot run with these settings.
  for (const auto& run : runs) {
    if (todo(run, catalogue, controls.overwrite) != Todo::nothing) build(run.settings, catalogue, cache);
  }
  std::vector<StudyResult> results;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (hooks.starting) hooks.starting(runs[i], i);
    try {
      results.push_back(run_one(runs[i], catalogue, cache, controls));
      if (hooks.finished) hooks.finished(results.back());
    } catch (const RunError& error) {
      if (hooks.failed) hooks.failed(runs[i], error.what());
    }
  }
  return results;
}

std::vector<StudyRow> summarise(const std::vector<StudyResult>& results) {
  std::vector<StudyRow> labels, rows;
  for (const auto& [run, fate, metrics] : results) {
    if (std::ranges::find(labels, run->label, &StudyRow::label) == labels.end()) {
      labels.push_back({.label = run->label, .method = run->method, .point = run->point});
    }
  }
  for (auto& row : labels) {
    std::map<std::string, std::vector<double>> numbers, greatest;
    for (const auto& result : results) {
      if (result.run->label != row.label || result.metrics.empty()) continue;
      ++row.seeds;
      std::map<std::string, double> best;
      for (const auto& line : result.metrics) {
        for (const auto& [name, value] : line.items()) {
          if (!value.is_number()) continue;
          row.total[name] += value.get<double>();
          const auto [found, first] = best.try_emplace(name, value.get<double>());
          if (!first) found->second = std::max(found->second, value.get<double>());
        }
      }
      for (const auto& [name, value] : best) greatest[name].push_back(value);
      const Json& last = result.metrics.back();
      for (const auto& [name, value] : last.items()) {
        if (value.is_number()) numbers[name].push_back(value.get<double>());
      }
      row.classified = last.contains("test_accuracy");
    }
    if (row.seeds == 0) continue;
    for (auto& [name, sum] : row.total) sum /= static_cast<double>(row.seeds);
    for (const auto& [name, values] : numbers) row.last[name] = spread(values);
    for (const auto& [name, values] : greatest) row.best[name] = spread(values);
    rows.push_back(row);
  }
  return rows;
}

}  // namespace parley
