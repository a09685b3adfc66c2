// parley evaluate: a finished run's model, evaluated in another way.
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>

#include "commands.h"
#include "parley/base/errors.h"
#include "parley/engine/run.h"
#include "study_tables.h"
#include "terminal.h"

namespace parley::app {
namespace {

namespace fs = std::filesystem;

// The folders of a comparison's or sweep's runs.
std::vector<std::string> runs_in(const fs::path& folder) {
  std::vector<std::string> runs;
  if (!fs::is_directory(folder)) return runs;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (fs::exists(entry.path() / "config.toml")) runs.push_back(entry.path().string());
  }
  std::ranges::sort(runs);
  return runs;
}

// The run's own settings with other keys of [evaluate].
Settings settings_of(const fs::path& folder, const std::vector<std::string>& assignments) {
  for (const auto& assignment : assignments) {
    if (assignment.starts_with("evaluate.")) continue;
    fail("--set {}: the model has been trained; only keys of [evaluate] can change now", assignment);
  }
  if (!fs::exists(folder / "config.toml")) {
    const auto runs = runs_in(folder);
    if (!runs.empty()) fail("{}: holds several runs; choose one of {}", folder.string(), fmt::join(runs, ", "));
    fail("{}: not a run's folder (config.toml is missing); expected one that parley run, compare or sweep filled",
         folder.string());
  }
  Config config = Config::read(folder / "config.toml");
  for (const auto& assignment : assignments) config.set(assignment);
  return resolve(config, catalogue());
}

void print_line(const std::string& label, const Json& line) {
  fmt::print("{}: {}\n", label, result_text(line));
  if (line.contains("posterior_accuracy")) {
    fmt::print("networks drawn: test accuracy {}\n", percent(line["posterior_accuracy"].get<double>()));
  }
  if (line.contains("bn_kl")) {
    fmt::print("batch-norm statistics: KL {:.4f} to the reference\n", line["bn_kl"].get<double>());
  }
}

// What a run is called beside others: the folder says more than the method.
std::string label_of(const fs::path& folder, const Settings& settings, bool several) {
  if (several) return folder.string();
  return RunFolder::read_info(folder).value_or(Json::object()).value("label", settings.method.text("name"));
}

void evaluate(const std::vector<std::string>& folders, const std::vector<std::string>& assignments,
              std::size_t threads) {
  DataCache cache;
  const bool several = folders.size() > 1;
  std::deque<StudyRun> runs;  // stay where they are: results and experiments point to them
  std::deque<Experiment> experiments;
  std::vector<FinishedRun> finished;
  for (const auto& folder : folders) {
    const Settings settings = settings_of(folder, assignments);
    runs.push_back({.label = label_of(folder, settings, several), .settings = settings, .folder = folder});
    experiments.push_back(build(settings, catalogue(), cache));
    finished.push_back({&experiments.back(), folder});
  }
  const auto together = several ? evaluate_together(finished, threads) : std::map<std::string, double>();
  std::vector<StudyResult> results;
  for (std::size_t k = 0; k < runs.size(); ++k) {
    Json line = evaluate_run(experiments[k], folders[k], threads);
    print_line(runs[k].label, line);
    if (k + 1 == runs.size()) line.update(Json(together));
    results.push_back({&runs[k], RunFate::done_before, {line}});
  }
  if (const auto accuracy = together.find("ensemble_accuracy"); accuracy != together.end()) {
    fmt::print("all {} together: test accuracy {}\n", folders.size(), percent(accuracy->second));
  }
  fmt::print("{}", measured_tables(summarise(results)));
}

}  // namespace

void add_evaluate(CLI::App& app) {
  auto* command = app.add_subcommand(
      "evaluate", "evaluate finished runs' models with other keys of [evaluate], several also together");
  const auto folders = std::make_shared<std::vector<std::string>>();
  const auto assignments = std::make_shared<std::vector<std::string>>();
  const auto threads = std::make_shared<std::size_t>(0);
  command->add_option("run", *folders, "the run's folder; of several, the mean of their predictions is evaluated too")
      ->required();
  command->add_option("--set", *assignments, "for example --set evaluate.posterior_samples=10")
      ->allow_extra_args(false);
  add_threads(*command, *threads, "worker threads; results do not depend on it (default: all cores)");
  command->callback([=] { evaluate(*folders, *assignments, resolve_threads(*threads)); });
}

}  // namespace parley::app
