#include "parley/engine/run.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>
#include <utility>

#include "parley/base/counted.h"
#include "parley/base/errors.h"
#include "parley/base/fingerprint.h"
#include "parley/base/timeline.h"
#include "parley/base/version.h"
#include "parley/engine/inputs.h"
#include "parley/engine/scores.h"
#include "parley/engine/time_budget.h"
#include "parley/model/kernels.h"
#include "parley/store/folder_lock.h"
#include "parley/tensor/safetensors.h"

namespace parley {
namespace {

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

// Which classes each client holds; of many clients a thousand, evenly chosen, so that a run of a million is not all
// bookkeeping.
void add_histogram(Json& info, const Experiment& experiment) {
  constexpr std::size_t kMost = 1000;
  const Dataset& data = *experiment.federated.data.train;
  const Partition& partition = experiment.federated.partition;
  const std::size_t clients = partition.clients.size(), shown = std::min(clients, kMost);
  if (data.classes == 0 || clients != experiment.clients()) return;  // not all of them are here
  Json& rows = info["label_histogram"] = Json::array();
  for (std::size_t i = 0; i < shown; ++i) rows.push_back(label_counts(data, partition.clients[i * clients / shown]));
}

Json describe(const Experiment& experiment, const RunControls& controls) {
  const Span span("describe run");
  const auto& data = experiment.federated.data;
  Json info = {
      {"version", kVersion},
      {"state", "running"},
      {"label", controls.label.empty() ? experiment.settings.method.text("name") : controls.label},
      {"method", experiment.settings.method.text("name")},
      {"seed", experiment.settings.run.integer("seed")},
      {"rounds", experiment.settings.run.integer("rounds")},
      {"wall_seconds", 0.0},
      {"machine",
       {{"cpu", cpu_name()},
        {"cores", std::thread::hardware_concurrency()},
        {"threads", controls.threads},
        {"kernels", kernels_in_use()}}},
      {"data", data.train->name},
      {"train_examples", data.train->size()},
      {"test_examples", data.test->size()},
      {"partition", experiment.partition_text},
      {"clients", experiment.clients()},
      {"model", experiment.describe_model()},
      {"parameters", experiment.layout->size()},
      {"class_names", data.train->class_names},
      {"inputs", fingerprints_of_inputs(experiment)},
  };
  add_histogram(info, experiment);
  return info;
}

Json metrics_of(const RoundReport& report) {
  Json line = {{"round", report.round}};
  line["train_loss"] = report.train_loss;
  line["clients"] = report.clients;
  line["examples"] = report.examples;
  line["steps"] = report.steps;
  line["epochs"] = report.epochs;
  line["transmissions"] = report.transmissions;
  line["simulated_seconds"] = report.simulated_seconds;
  line["bytes_up"] = report.bytes_up;
  line["bytes_down"] = report.bytes_down;
  if (!report.refused.empty()) line["refused"] = report.refused;
  for (const auto& [name, value] : report.extra) line[name] = value;
  if (!report.visits.is_null()) line["visits"] = report.visits;
  return line;
}

// What each class is taken for, and how often the model is right by how sure it is: [examples, sum of their
// confidences, how many are right] for each of the bins of the calibration error.
void add_confusion(Json& line, const Evaluation& evaluation) {
  const std::size_t classes = evaluation.class_total.size();
  if (!evaluation.confusion.empty()) {
    Json& rows = line["confusion"] = Json::array();
    for (std::size_t c = 0; c < classes; ++c) {
      rows.push_back(std::vector(evaluation.confusion.begin() + static_cast<std::ptrdiff_t>(c * classes),
                                 evaluation.confusion.begin() + static_cast<std::ptrdiff_t>((c + 1) * classes)));
    }
  }
  Json& bins = line["reliability"] = Json::array();
  for (const auto& bin : evaluation.bins) bins.push_back({bin.count, bin.confidence, bin.correct});
}

void add_evaluation(Json& line, const Experiment& experiment, Engine& engine, std::size_t round, bool last) {
  if (experiment.federated.data.test->size() == 0) {  // a server whose data are elsewhere
    if (!experiment.settings.evaluate.flag("clients")) return;
    for (const auto& [name, value] : engine.measure(round, last)) line[name] = value;
    return;
  }
  const Evaluation evaluation = engine.evaluate(*experiment.federated.data.test);
  for (const auto& [name, value] : scores("test", evaluation)) line[name] = value;
  if (evaluation.classified()) {
    line["class_total"] = evaluation.class_total;
    line["class_correct"] = evaluation.class_correct;
    if (last) add_confusion(line, evaluation);
  }
  for (const auto& [name, value] : engine.measure(round, last)) line[name] = value;
}

// The settings that decide a run's bytes: all but how many rounds it goes on for.
std::string identity(const std::string& toml) {
  std::string kept, section;
  std::istringstream text(toml);
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with('[')) section = line;
    if (section != "[run]" || !line.starts_with("rounds = ")) kept += line + "\n";
  }
  return kept;
}

// Whether a run has begun in this folder, so that --resume has something to go on with. Throws InputError when there is
// one that has lost its config.toml.
bool has_begun(const std::filesystem::path& path) {
  // A new run was about to take the place of an old one, and was killed.
  const auto info = RunFolder::read_info(path);
  if (info && info->value("state", "") == RunFolder::kBeginning) return false;
  if (std::filesystem::exists(path / "config.toml")) return true;
  for (const char* name : {"run.json", "model.safetensors", "checkpoint/checkpoint.json"}) {
    if (!std::filesystem::exists(path / name)) continue;
    fail("{}: missing, and without it the run there cannot be resumed; restore it, or begin again with --overwrite",
         (path / "config.toml").string());
  }
  return false;
}

// `inputs` are the fingerprints of what this run has read.
void check_resumable(const std::filesystem::path& path, const Settings& settings, const Json& inputs) {
  const std::string there = read_file(path / "config.toml"), here = settings.to_toml();
  if (!same_but_for_rounds(there, here)) {
    fail("{}: the run there has other settings ({}); use the same ones, or another --out", path.string(),
         first_difference(there, here));
  }
  if (settings.run.integer("checkpoint_every") == 0) {
    fail("{}: the run there wrote no checkpoints (run.checkpoint_every = 0); replace it with --overwrite",
         path.string());
  }
  const Json info = RunFolder::read_info(path).value_or(Json::object());
  require_same_inputs(inputs, info.value("inputs", Json::object()), path);
}

// Without a checkpoint a run begins anew: right for one that was stopped before its first, and the loss of all rounds
// for one that had it. Throws InputError for the latter.
void require_no_checkpoint_yet(const RunFolder& folder, std::size_t checkpoint_every) {
  const auto file = folder.path() / "metrics.jsonl";
  const std::string lines = std::filesystem::exists(file) ? read_file(file) : "";
  const auto rounds = static_cast<std::size_t>(std::ranges::count(lines, '\n'));
  if (rounds <= checkpoint_every && !std::filesystem::exists(folder.path() / "model.safetensors")) return;
  fail(
      "{}: missing, though the run there has finished {}; restore it, or begin again with --overwrite (which "
      "removes them)",
      (folder.path() / "checkpoint" / "checkpoint.json").string(), counted(rounds, "round"));
}

// Whoever the checkpoint says has a record that is not there: to a method it is a client that never took part.
std::vector<std::string> missing_records(const Json& remembering, const ClientStore& store) {
  const auto found = store.clients();
  std::vector<std::string> notes;
  for (const auto& client : remembering) {
    const auto number = client.get<std::size_t>();
    if (std::ranges::binary_search(found, number)) continue;
    notes.push_back(
        fmt::format("client {}: what it remembered is missing from the checkpoint; it starts afresh", number));
  }
  return notes;
}

class Runner {
 public:
  Runner(const Experiment& experiment, RunFolder& folder, const RunControls& controls, const Json& info)
      : experiment_(experiment),
        folder_(folder),
        info_(info),
        controls_(controls),
        rounds_(static_cast<std::size_t>(experiment.settings.run.integer("rounds"))),
        checkpoint_every_(static_cast<std::size_t>(experiment.settings.run.integer("checkpoint_every"))),
        store_(
            experiment.settings.store.text("clients") == "disk" ? ClientStore::Keep::disk : ClientStore::Keep::memory,
            checkpoint_every_ > 0 ? folder.client_folder() : std::filesystem::path(), *controls.files,
            fingerprint(identity(experiment.settings.to_toml()))),
        engine_(make_engine(experiment, store_, controls.threads, controls.make_executor, controls.make_errands)) {}

  RunSummary run() {
    RunSummary summary;
    RunFolder::Resumed from;
    Json remembering;
    bool finished = false;
    if (controls_.resume) {
      if (auto resumed = folder_.resume(engine_->state())) {
        from = std::move(*resumed);
        summary.resumed_from = from.round;
        earlier_seconds_ = from.progress.value("seconds", 0.0);
        remembering = from.progress.value("remembering", Json::array());
        finished = from.progress.value("finished", false);
        store_.read_at(from.round);
      } else {
        require_no_checkpoint_yet(folder_, checkpoint_every_);
      }
      // config.toml would name a run that is shorter than its model.
      if (summary.resumed_from > rounds_) {
        fail(
            "{}: run.rounds = {}, but the run there has finished {}; ask for as many or more, or use another "
            "--out",
            folder_.path().string(), rounds_, counted(summary.resumed_from, "round"));
      }
    }
    // Only now, when the checkpoint has proved sound, is anything in the folder changed.
    folder_.begin(experiment_.settings.to_toml(), info_, from);
    store_.forget_after(summary.resumed_from);
    notes_ = missing_records(remembering, store_);
    if (summary.resumed_from > 0) engine_->restore(from.progress.value("engine", Json()));
    for (std::size_t round = summary.resumed_from + 1; round <= rounds_ && !finished; ++round) {
      finished = one_round(round);
    }
    summary.checksums = {{"model.safetensors", folder_.write_model(engine_->state())},
                         {"metrics.jsonl", folder_.metrics_checksum()}};
    summary.metrics = folder_.metrics();
    summary.seconds = seconds();
    return summary;
  }

  // After a failure: the rounds before it are finished, and their state is still there.
  void save_finished() { save(false); }
  double seconds() const { return earlier_seconds_ + watch_.seconds(); }
  std::size_t remembering() const { return store_.clients().size(); }

 private:
  // Whether the method has nothing more to gain.
  bool one_round(std::size_t round) {
    if (controls_.progress) controls_.progress->started(round, rounds_);
    const Stopwatch watch;
    const Span span("round", round);
    const RoundReport report = engine_->round(round, [&](std::size_t finished, std::size_t cohort) {
      if (controls_.progress) controls_.progress->client_done(finished, cohort);
    });
    Json line = metrics_of(report);
    line["seconds"] = watch.seconds();
    if (!notes_.empty()) line["notes"] = std::exchange(notes_, {});
    store_.commit(round);  // before clients are asked: what they keep to themselves is a part of their model
    const auto every = static_cast<std::size_t>(experiment_.settings.evaluate.integer("every"));
    const bool last = round == rounds_ || report.finished;
    if (round % every == 0 || last) {
      const Stopwatch evaluation;
      const Span evaluating("evaluate", round);
      add_evaluation(line, experiment_, *engine_, round, last);
      if (const Json table = engine_->client_table(); !table.is_null()) folder_.write_clients(table);
      line["evaluation_seconds"] = evaluation.seconds();
    }
    append(line);
    unsaved_ = round;
    if (checkpoint_is_due(round) || last) save(report.finished);
    if (controls_.progress) controls_.progress->round_done(line);
    return report.finished;
  }

  void append(const Json& line) {
    const Span span("metrics");
    folder_.append_metrics(line);
  }

  // Rounds that are over in no time do not each wait for the disk: a kill costs them a second's work at most.
  bool checkpoint_is_due(std::size_t round) const {
    if (checkpoint_every_ == 0 || round % checkpoint_every_ != 0) return false;
    if (!last_save_ || controls_.save_every_round) return true;
    return last_save_->seconds() >= experiment_.settings.run.real("checkpoint_seconds");
  }

  void save(bool finished) {
    const std::size_t round = std::exchange(unsaved_, 0);
    if (checkpoint_every_ == 0 || round == 0) return;
    const Span span("checkpoint", round);
    store_.save(round);
    folder_.write_checkpoint(round, engine_->state(),
                             {{"seconds", seconds()},
                              {"engine", engine_->progress()},
                              {"remembering", store_.clients()},
                              {"finished", finished}});
    store_.sweep();
    last_save_.emplace();
  }

  const Experiment& experiment_;
  RunFolder& folder_;
  const Json& info_;
  const RunControls& controls_;
  std::size_t rounds_, checkpoint_every_;
  ClientStore store_;
  std::unique_ptr<Engine> engine_;
  Stopwatch watch_;
  std::optional<Stopwatch> last_save_;
  std::size_t unsaved_ = 0;  // a finished round whose checkpoint is not written yet
  double earlier_seconds_ = 0.0;
  std::vector<std::string> notes_;  // to be told with the next round
};

}  // namespace

bool same_but_for_rounds(const std::string& one, const std::string& other) {
  return identity(one) == identity(other);
}

std::string first_difference(const std::string& there, const std::string& here) {
  std::istringstream a(identity(there)), b(identity(here));
  std::string line_a, line_b, section;
  while (true) {
    const bool more_a = static_cast<bool>(std::getline(a, line_a)), more_b = static_cast<bool>(std::getline(b, line_b));
    if (!more_a && !more_b) return "";
    if (line_a != line_b) return fmt::format("there it is {}: {}, here {}", section, line_a, line_b);
    if (line_a.starts_with('[')) section = line_a;
  }
}

RunSummary run_experiment(const Experiment& experiment, const std::filesystem::path& path, const RunControls& asked) {
  RunControls controls = asked;
  controls.resume = asked.resume && has_begun(path);
  if (!controls.make_errands) require_somebody_in_time(experiment);  // real clients are measured
  Json info = describe(experiment, controls);
  if (controls.resume) check_resumable(path, experiment.settings, info["inputs"]);
  RunFolder folder(path, *controls.files);
  const FolderLock lock(path);
  std::optional<Runner> runner;
  try {
    runner.emplace(experiment, folder, controls, info);
    RunSummary summary = runner->run();
    info["state"] = "done";
    info["wall_seconds"] = summary.seconds;
    info["clients_remembering"] = runner->remembering();
    info["checksums"] = summary.checksums;
    folder.write_info(info);
    return summary;
  } catch (const RunError& error) {
    info["state"] = "failed";
    info["error"] = error.what();
    if (runner) info["wall_seconds"] = runner->seconds();
    try {
      if (runner) runner->save_finished();
      folder.write_info(info);
    } catch (const RunError&) {
      // The disk may be what failed; the first error is the one to report.
    }
    throw;
  }
}

namespace {

// A finished run, read back.
class Revived {
 public:
  Revived(const Experiment& experiment, const std::filesystem::path& folder, std::size_t threads)
      : run_(finished_folder(experiment, folder), real_files()),
        store_(ClientStore::Keep::memory, run_.client_folder(), real_files(), fingerprint(identity(run_.config()))),
        engine_(make_engine(experiment, store_, threads)) {
    const Json info = RunFolder::read_info(folder).value_or(Json::object());
    restore_clients(experiment, folder, info);
    restore_model(folder, info);
    require_same_inputs(fingerprints_of_inputs(experiment), info.value("inputs", Json::object()), folder);
  }
  Engine& engine() { return *engine_; }

 private:
  static const std::filesystem::path& finished_folder(const Experiment& experiment,
                                                      const std::filesystem::path& folder) {
    if (!std::filesystem::exists(folder / "model.safetensors")) {
      fail("{}: holds no finished run (model.safetensors is missing); finish it with parley run --resume",
           folder.string());
    }
    if (experiment.settings.among_peers) {
      fail("{}: {} ends with the models of many peers, and evaluate asks the one of a server; see its report instead",
           folder.string(), experiment.settings.method.text("name"));
    }
    return folder;
  }

  void restore_clients(const Experiment& experiment, const std::filesystem::path& folder, const Json& info) {
    if (const auto checkpoint = run_.resume(engine_->state())) {
      store_.read_at(checkpoint->round);
      engine_->restore(checkpoint->progress.value("engine", Json()));
    } else if (experiment.settings.evaluate.flag("clients") && info.value("clients_remembering", 0u) > 0) {
      fail(
          "evaluate.clients = true: {} was run without checkpoints (run.checkpoint_every = 0), and what its clients "
          "keep to themselves is gone; run it again with checkpoints",
          folder.string());
    }
  }

  void restore_model(const std::filesystem::path& folder, const Json& info) {
    const auto model = folder / "model.safetensors";
    const TensorFile weights = read_safetensors(model);
    const Json checksums = info.value("checksums", Json::object());
    if (checksums.value("model.safetensors", weights.checksum) != weights.checksum) {
      fail("{}: not the model that this run ended with; restore it, or run again", model.string());
    }
    engine_->state().restore(weights, model.string());
  }

  RunFolder run_;
  ClientStore store_;
  std::unique_ptr<Engine> engine_;
};

bool same_examples(const Dataset& a, const Dataset& b) {
  return a.shape == b.shape && a.classes == b.classes && a.values == b.values && a.labels == b.labels &&
         a.targets == b.targets;
}

}  // namespace

Json evaluate_run(const Experiment& experiment, const std::filesystem::path& folder, std::size_t threads) {
  Revived revived(experiment, folder, threads);
  const auto rounds = static_cast<std::size_t>(experiment.settings.run.integer("rounds"));
  Json line = {{"round", rounds}};
  add_evaluation(line, experiment, revived.engine(), rounds, true);
  return line;
}

std::map<std::string, double> evaluate_together(const std::vector<FinishedRun>& runs, std::size_t threads) {
  const Experiment& first = *runs.front().experiment;
  const Dataset& test = *first.federated.data.test;
  std::optional<MeanPrediction> mean, other;
  const auto add = [](std::optional<MeanPrediction>& to, std::size_t number, MeanPrediction one) {
    number == 0 ? void(to = std::move(one)) : to->add(number, 0, one.outputs());
  };
  for (std::size_t k = 0; k < runs.size(); ++k) {
    const Experiment& experiment = *runs[k].experiment;
    if (!same_examples(*experiment.federated.data.test, test)) {
      fail("{}: tested on other examples than {}; expected runs with the same test data", runs[k].folder.string(),
           runs.front().folder.string());
    }
    const bool same_ood =
        first.ood && experiment.ood ? same_examples(*experiment.ood, *first.ood) : !first.ood && !experiment.ood;
    if (!same_ood) {
      fail("{}: its evaluate.ood is not that of {}; name one for all with --set evaluate.ood=", runs[k].folder.string(),
           runs.front().folder.string());
    }
    Revived revived(experiment, runs[k].folder, threads);
    add(mean, k, revived.engine().predict(test));
    if (first.ood) add(other, k, revived.engine().predict(*experiment.ood));
  }
  std::map<std::string, double> metrics;
  for (const auto& [name, value] : scores("ensemble", evaluate(*mean, WholeView(test).view()))) metrics[name] = value;
  if (other) metrics["ensemble_ood_auroc"] = auroc(doubts(*other), doubts(*mean));
  return metrics;
}

}  // namespace parley
