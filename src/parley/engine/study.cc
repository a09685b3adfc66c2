#include "parley/engine/study.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "parley/base/errors.h"

namespace parley {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

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
  const auto parts = split(spec, ':');
  if (parts.empty() || parts[0].empty()) fail("--methods: expected names such as fedavg,fedprox:mu=0.1");
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

// Every combination of the lists in [sweep], as assignments "section.key=value".
std::vector<std::vector<std::string>> sweep_points(const Config& config) {
  std::vector<std::string> keys = config.keys("sweep");
  if (keys.empty()) {
    fail("{}: no [sweep] section; expected lists such as client.lr = [0.1, 0.01]", config.where("sweep", ""));
  }
  std::ranges::sort(keys);
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

bool is_finished(const StudyRun& run, const Catalogue& catalogue) {
  const auto info = RunFolder::read_info(run.folder);
  return info && info->value("state", "") == "done" && has_same_settings(run, catalogue);
}

bool is_resumable(const StudyRun& run) {
  return std::filesystem::exists(run.folder / "checkpoint" / "checkpoint.json") &&
         RunFolder(run.folder, real_files()).config() == run.settings.to_toml();
}

StudyResult run_one(const StudyRun& run, const Catalogue& catalogue, DataCache& cache, RunControls controls) {
  if (is_finished(run, catalogue))
    return {&run, RunFate::done_before, RunFolder(run.folder, *controls.files).metrics()};
  controls.resume = is_resumable(run);
  controls.label = run.label;
  const Experiment experiment = build(run.settings, catalogue, cache);
  auto summary = run_experiment(experiment, run.folder, controls);
  return {&run, summary.resumed_from > 0 ? RunFate::resumed : RunFate::fresh, std::move(summary.metrics)};
}

}  // namespace

std::vector<StudyRun> plan_compare(const Config& config, const std::vector<std::string>& methods,
                                   const std::vector<std::int64_t>& seeds, const Catalogue& catalogue,
                                   const std::filesystem::path& out) {
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
  auto chosen = with_methods(config, methods);
  if (chosen.empty()) chosen.emplace_back("", config);
  std::vector<std::string> seed_texts{""};
  if (!seeds.empty()) seed_texts.clear();
  for (const auto seed : seeds) seed_texts.push_back(fmt::format("run.seed={}", seed));

  std::vector<StudyRun> runs;
  for (const auto& assignment : sweep_points(config)) {
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
    if (!is_finished(run, catalogue)) build(run.settings, catalogue, cache);
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
