// parley run, compare, sweep: experiments.
#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <optional>
#include <span>
#include <thread>

#include "commands.h"
#include "parley/base/counted.h"
#include "parley/base/errors.h"
#include "parley/base/timeline.h"
#include "parley/engine/advice.h"
#include "parley/engine/study.h"
#include "parley/report/report.h"
#ifdef PARLEY_MPI
#include "parley/engine/mpi/mpi.h"
#endif
#ifdef PARLEY_TORCH
#include "parley/model/torch/torch_models.h"
#endif
#include "live.h"
#include "study_tables.h"
#include "terminal.h"

namespace parley::app {
namespace {

namespace fs = std::filesystem;

// --out, --threads: where and how, which never change a result.
struct RunArguments {
  std::string out;
  std::size_t threads = 0;
  void add_to(CLI::App& command) {
    command.add_option("--out", out, "folder for the results (default: runs/<name of the file>)");
    add_threads(command, threads, "worker threads; results do not depend on it (default: all cores)");
  }
};

// --methods, --seeds: what a comparison or a sweep repeats.
struct StudyArguments {
  std::string methods_text;
  std::vector<std::int64_t> seeds;
  bool overwrite = false;
  // Gives --methods back, for a command that cannot do without.
  CLI::Option* add_to(CLI::App& command) {
    command.add_option("--seeds", seeds, "for example 1,2,3 (default: the file's run.seed)")->delimiter(',');
    command.add_flag("--overwrite", overwrite, "replace runs in --out that have other settings");
    return command.add_option("--methods", methods_text,
                              "for example fedavg,fedprox:mu=0.1,fedavg:server.step=adam,fedavg:model.hidden=[50,20]");
  }
  std::vector<std::string> methods() const {
    return methods_text.empty() ? std::vector<std::string>{} : split_outside_lists(methods_text, ',');
  }
};

// What is particular to a single run.
struct OneRun {
  bool resume = false, overwrite = false;
  std::string profile, serve;  // empty: none
};

bool holds_run(const fs::path& folder) {
  return fs::exists(folder / "run.json");
}

// By a run, or by a comparison or sweep of the same file.
bool is_taken(const fs::path& folder) {
  return fs::exists(folder) && !fs::is_empty(folder);
}

// A comparison or sweep has a folder for each of its runs.
bool holds_study(const fs::path& folder) {
  if (!fs::is_directory(folder)) return false;
  return std::ranges::any_of(fs::directory_iterator(folder), [](const auto& entry) { return holds_run(entry.path()); });
}

// Where a comparison or sweep goes: runs/NAME, or runs/NAME-compare when a single run is there.
fs::path pick_study_folder(const std::string& out, const std::string& file, const char* command) {
  fs::path folder = out.empty() ? default_folder(file) : fs::path(out);
  if (!holds_run(folder)) return folder;
  if (out.empty()) folder += fmt::format("-{}", command);
  if (holds_run(folder)) fail("{}: holds a single run; choose another --out", folder.string());
  return folder;
}

// Without --out: runs/NAME, or runs/NAME-2, -3, … so that no earlier result is overwritten; to resume, the last of
// them.
fs::path pick_folder(const std::string& file, bool resume) {
  const fs::path base = default_folder(file);
  fs::path last;
  for (int n = 2;; ++n) {
    const fs::path next = n == 2 ? base : fs::path(fmt::format("{}-{}", base.string(), n - 1));
    if (!is_taken(next)) return resume && !last.empty() ? last : next;
    if (holds_run(next)) last = next;
  }
}

// The page of these runs and no others.
void write_report(const fs::path& folder, std::span<const fs::path> runs) {
  const Span span("report");
  real_files().replace(folder / "report.html", render_report(read_runs(runs)));
}

// What the file says and this run does not use.
void say_unused(const Settings& settings) {
  for (const auto& section : settings.unused) {
    fmt::print("note: [{}] does nothing with {}, which has a server\n", section, settings.method.text("name"));
  }
}

void advise(const std::vector<std::string>& lines) {
  for (const auto& line : lines) fmt::print(stderr, "note: {}\n", line);
}

void describe(const Experiment& experiment, const std::string& machine) {
#ifdef PARLEY_TORCH
  if (const std::string warning = torch_blas_warning(); !warning.empty()) fmt::print(stderr, "warning: {}\n", warning);
#endif
  const Dataset& train = *experiment.federated.data.train;
  fmt::print("{}: {} train + {} test examples, {}\n", train.name, train.size(), experiment.federated.data.test->size(),
             experiment.partition_text);
  fmt::print("{}, {} parameters; {}; {}\n", experiment.describe_model(), experiment.layout->size(),
             experiment.settings.method.text("name"), machine);
  advise(advice(experiment));
}

void refuse_peers(const Settings& settings) {
  if (!settings.among_peers) return;
  fail("method.name = \"{}\": peers meet in simulated time, which one process keeps; run it without mpirun",
       settings.method.text("name"));
}

// The bar, and the page of --serve where there is one.
class Watched final : public Progress {
 public:
  Watched(ProgressBar& bar, LivePage* page) : bar_(bar), page_(page) {}
  void started(std::size_t round, std::size_t rounds) override {
    bar_.started(round, rounds);
    rounds_ = rounds;
  }
  void client_done(std::size_t finished, std::size_t cohort) override { bar_.client_done(finished, cohort); }
  void round_done(const Json& metrics) override {
    bar_.round_done(metrics);
    if (page_ != nullptr) page_->show(metrics["round"].get<std::size_t>(), rounds_);
  }

 private:
  ProgressBar& bar_;
  LivePage* page_;
  std::size_t rounds_ = 0;
};

// Who runs the client sides, and how that is called.
struct Crew {
  std::string text;
  MakeExecutor make_executor = {};
  // Builds the experiment; where there are several processes, as all of them do.
  std::function<Experiment(const Settings& settings)> build = [](const Settings& settings) {
    DataCache cache;
    return parley::build(settings, catalogue(), cache);
  };
};

Crew threads_alone(std::size_t threads) {
  return {.text = counted(threads, "thread")};
}

// Writes a run's timeline to a file and says where the time went.
class Profile {
 public:
  // Throws InputError when the file cannot be written: before the run, not after it.
  explicit Profile(fs::path file) : file_(std::move(file)) {
    if (fs::is_directory(file_)) fail("--profile {}: is a folder; expected a file", file_.string());
    if (file_.has_parent_path()) make_folder(file_.parent_path());
  }

  void finish() const {
    const double all = timeline_.seconds() * static_cast<double>(std::max<std::size_t>(timeline_.lanes(), 1));
    double spent = 0.0;
    Table table({"work", "times", "seconds", "share"});
    const auto share = [&](double seconds) { return fmt::format("{:.1f} %", 100.0 * seconds / all); };
    for (const auto& total : timeline_.totals()) {
      table.add({total.name, std::to_string(total.spans), fmt::format("{:.3f}", total.seconds), share(total.seconds)});
      spent += total.seconds;
    }
    table.add({"waiting, and the rest", "", fmt::format("{:.3f}", all - spent), share(all - spent)});
    real_files().replace(file_, timeline_.json());
    fmt::print("\n{}\nprofile: {} (open it at chrome://tracing or ui.perfetto.dev)\n", table.text(), file_.string());
  }

 private:
  fs::path file_;
  Timeline timeline_;
};

void run_one(const ExperimentArguments& arguments, const RunArguments& where, const OneRun& how, const Crew& crew) {
  std::optional<Profile> profile;
  if (!how.profile.empty()) profile.emplace(how.profile);
  const Settings settings = resolve(arguments.read(), catalogue());
  const fs::path folder = where.out.empty() ? pick_folder(arguments.file, how.resume) : fs::path(where.out);
  if (holds_run(folder) && !how.resume && !how.overwrite) {
    fail("{}: already holds a run; continue it with --resume, replace it with --overwrite, or choose another --out",
         folder.string());
  }
  if (holds_study(folder)) {
    fail("{}: holds the runs of a comparison or sweep; choose another --out", folder.string());
  }
  require_writable(folder);
  say_unused(settings);
  if (crew.make_executor) refuse_peers(settings);
  const Experiment experiment = crew.build(settings);
  const std::size_t threads = resolve_threads(where.threads);
  if (how.resume && !holds_run(folder)) fmt::print("{}: nothing to resume; the run begins\n", folder.string());
  if (settings.run.integer("checkpoint_every") > 0) {
    advise_when_interrupted("all but the last second is kept; continue with --resume");
  }
  describe(experiment, crew.text);
  ProgressBar bar;
  bar.title(settings.method.text("name"));
  const auto page = how.serve.empty() ? nullptr : open_live_page(how.serve, folder);
  if (page) fmt::print("watch it at {}\n", page->address());
  Watched progress(bar, page.get());
  const auto summary = run_experiment(
      experiment, folder,
      {.threads = threads, .resume = how.resume, .make_executor = crew.make_executor, .progress = &progress});
  bar.clear();
  write_report(folder, {&folder, 1});
  const auto wanted = static_cast<std::size_t>(settings.run.integer("rounds"));
  if (summary.metrics.size() < wanted) {
    fmt::print("{} stopped {} early: it has nothing more to gain\n", settings.method.text("name"),
               counted(wanted - summary.metrics.size(), "round"));
  } else if (summary.resumed_from == wanted) {
    fmt::print("nothing was left to do; raise run.rounds to go on\n");
  }
  fmt::print("done: {}\n", summary_text(summary));
  advise(advice(summary.metrics));
  const StudyRun run{.label = settings.method.text("name"), .settings = settings, .folder = folder};
  if (const auto table = measured_tables(summarise({{&run, RunFate::fresh, summary.metrics}})); !table.empty()) {
    fmt::print("{}\n", table);
  }
  fmt::print("results in {}: model.safetensors, metrics.jsonl, config.toml, {}report.html\n", folder.string(),
             settings.evaluate.flag("clients") ? "clients.json, " : "");
  if (profile) profile->finish();
}

#ifdef PARLEY_MPI
// A rank other than 0 only answers. What is wrong with the input, rank 0 says for all.
void run_on_ranks(const ExperimentArguments& arguments, const RunArguments& where, const OneRun& how) {
  int argc = 0;
  char** argv = nullptr;
  const mpi::Session session(argc, argv);
  const std::size_t threads = resolve_threads(where.threads);
  const auto build_alike = [&](const Settings& settings) {
    DataCache cache([&](const DataCache::Load& load) { return session.once_a_machine(load); });
    Experiment experiment = build(settings, catalogue(), cache);
    session.require_same_inputs(experiment);
    return experiment;
  };
  try {
    if (session.rank() > 0) {
      const Settings settings = resolve(arguments.read(), catalogue());
      refuse_peers(settings);
      return mpi::serve(session, build_alike(settings), threads);
    }
    run_one(arguments, where, how,
            {.text = fmt::format("{} of {} ({})", counted(session.ranks(), "rank"), counted(threads, "thread"),
                                 session.library()),
             .make_executor = mpi::executor(session),
             .build = build_alike});
  } catch (const InputError& error) {
    if (session.rank() == 0) {
      fmt::print(stderr, "parley: {}\n", error.what());
      session.abort(error.exit_code());
    }
    std::this_thread::sleep_for(std::chrono::seconds(5));  // until rank 0 has said it and ends the job
    fmt::print(stderr,
               "parley: rank {} of {}: {}; rank 0 has not found this: are the files the same on every machine?\n",
               session.rank(), session.ranks(), error.what());
    session.abort(error.exit_code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "parley: rank {} of {}: {}; finished rounds are kept, go on with --resume\n", session.rank(),
               session.ranks(), error.what());
    session.abort(1);
  }
}
#endif

void run_as_launched(const ExperimentArguments& arguments, const RunArguments& where, const OneRun& how) {
  if (launched().ranks == 1) {
    return run_one(arguments, where, how, threads_alone(resolve_threads(where.threads)));
  }
#ifdef PARLEY_MPI
  run_on_ranks(arguments, where, how);
#else
  fail(
      "mpirun started {} processes, and this parley was built without MPI; run it without mpirun, or install "
      "libopenmpi-dev and build again with -DPARLEY_MPI=ON",
      launched().ranks);
#endif
}

// Runs the study, prints the tables, writes table.txt and report.html beside the run folders.
void run_and_show(const std::vector<StudyRun>& runs, const fs::path& out, std::size_t threads, bool overwrite) {
  advise_when_interrupted(overwrite ? "what is finished is kept; run the same command again without --overwrite"
                                    : "what is finished is kept; run the same command again to go on");
  ProgressBar bar;
  std::size_t failures = 0;
  const StudyHooks hooks{
      .starting =
          [&](const StudyRun& run, std::size_t index) {
            bar.title(fmt::format("[{}/{}] {} seed {}", index + 1, runs.size(), run.label, run.seed));
          },
      .finished =
          [&](const StudyResult& result) {
            bar.clear();
            const Json& last = result.metrics.back();
            const char* fate = result.fate == RunFate::done_before ? "done before"
                               : result.fate == RunFate::resumed   ? "resumed"
                                                                   : "done";
            fmt::print("{:<11}  {} seed {}  {}\n", fate, result.run->label, result.run->seed,
                       last.contains("test_accuracy") ? "test " + percent(last["test_accuracy"].get<double>())
                                                      : fmt::format("loss {:.4f}", last.value("test_loss", 0.0)));
          },
      .failed =
          [&](const StudyRun& run, const std::string& reason) {
            bar.clear();
            ++failures;
            fmt::print("failed       {} seed {}  {}\n", run.label, run.seed, reason);
          },
  };
  const auto results =
      run_study(runs, catalogue(), {.threads = threads, .overwrite = overwrite, .progress = &bar}, hooks);
  const std::string table = closing_tables(runs, results);
  real_files().replace(out / "table.txt", table);
  std::vector<fs::path> folders;
  for (const auto& result : results) folders.push_back(result.run->folder);
  if (!folders.empty()) write_report(out, folders);
  fmt::print("\n{}\nreport: {}\n", table, (out / "report.html").string());
  if (failures > 0) fail<RunError>("{} of {} runs failed, see above", failures, runs.size());
}

}  // namespace

void add_run(CLI::App& app) {
  auto* command = app.add_subcommand("run", "run one experiment");
  const auto arguments = std::make_shared<ExperimentArguments>();
  const auto where = std::make_shared<RunArguments>();
  const auto how = std::make_shared<OneRun>();
  arguments->add_to(*command);
  where->add_to(*command);
  command->add_option("--serve", how->serve,
                      "host:port of a page that shows the run as it goes on; its address, with a token, is printed");
  command->add_option("--profile", how->profile,
                      "write a timeline to this file (Chrome's trace format), and say where the time went");
  auto* resume_flag = command->add_flag("--resume", how->resume, "resume after the last checkpoint");
  command->add_flag("--overwrite", how->overwrite, "replace the run that --out holds")->excludes(resume_flag);
  command->callback([=] { run_as_launched(*arguments, *where, *how); });
}

void add_compare(CLI::App& app) {
  auto* command =
      app.add_subcommand("compare", "run several methods and seeds on the same split; one table, one report");
  const auto arguments = std::make_shared<ExperimentArguments>();
  const auto where = std::make_shared<RunArguments>();
  const auto study = std::make_shared<StudyArguments>();
  arguments->add_to(*command);
  where->add_to(*command);
  study->add_to(*command)->required();
  command->callback([=] {
    refuse_ranks("compare");
    const Config config = arguments->read();
    std::vector<std::int64_t> seeds = study->seeds;
    if (seeds.empty()) seeds.push_back(resolve(config, catalogue()).run.integer("seed"));
    const fs::path out = pick_study_folder(where->out, arguments->file, "compare");
    run_and_show(plan_compare(config, study->methods(), seeds, catalogue(), out), out, resolve_threads(where->threads),
                 study->overwrite);
  });
}

void add_sweep(CLI::App& app) {
  auto* command = app.add_subcommand("sweep", "run every combination of the lists in [sweep], best first");
  const auto arguments = std::make_shared<ExperimentArguments>();
  const auto where = std::make_shared<RunArguments>();
  const auto study = std::make_shared<StudyArguments>();
  arguments->add_to(*command);
  where->add_to(*command);
  study->add_to(*command);
  command->callback([=] {
    refuse_ranks("sweep");
    const fs::path out = pick_study_folder(where->out, arguments->file, "sweep");
    run_and_show(plan_sweep(arguments->read(), study->methods(), study->seeds, catalogue(), out), out,
                 resolve_threads(where->threads), study->overwrite);
  });
}

}  // namespace parley::app
