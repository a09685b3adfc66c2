// A whole run: rounds, evaluation, metrics, checkpoints, resume.
#pragma once

#include <string>
#include <vector>

#include "parley/engine/executor.h"
#include "parley/engine/experiment.h"
#include "parley/store/run_folder.h"

namespace parley {

// Where a run tells of its progress. Calls come from the thread that called run_experiment, except client_done, which
// comes from a worker (one at a time).
class Progress {
 public:
  virtual ~Progress() = default;
  virtual void started(std::size_t /*round*/, std::size_t /*rounds*/) {}
  virtual void client_done(std::size_t /*finished*/, std::size_t /*cohort*/) {}
  virtual void round_done(const Json& /*metrics*/) {}
};

struct RunControls {
  std::size_t threads = 1;
  bool resume = false;
  bool overwrite = false;  // of a study: whether runs with other settings may be replaced
  std::string label;       // how the run is called in tables and plots; empty: the method's name
  Files* files = &real_files();
  bool save_every_round = false;    // whatever run.checkpoint_seconds says: others rely on finished rounds
  MakeExecutor make_executor = {};  // who runs the client sides; none: threads of this process
  MakeErrands make_errands = {};    // the same where rounds are buffered; none: the simulated clock
  Progress* progress = nullptr;
};

struct RunSummary {
  std::vector<Json> metrics;  // of all rounds, earlier ones included when resumed
  std::size_t resumed_from = 0;
  double seconds = 0.0;
  Json checksums = {};  // of the files that the run ended with
};

// Runs the experiment in `folder`. A folder that holds another run is overwritten, unless resume is asked for: then the
// settings must be the same, apart from run.rounds, and so must the content of all inputs; where no run has begun, one
// does. Throws InputError or RunError; in both cases what was finished
// stays on disk, and run.json says "failed" and why.
RunSummary run_experiment(const Experiment& experiment, const std::filesystem::path& folder,
                          const RunControls& controls);

// Of two config.tomls: whether they give the same bytes round by round, for however many rounds; and, for the message,
// the first line in which they differ.
bool same_but_for_rounds(const std::string& one, const std::string& other);
std::string first_difference(const std::string& there, const std::string& here);

// The finished model in `folder` on the experiment's test data, as [evaluate] says: the metrics that a round has of its
// evaluation. Writes nothing. Throws InputError when there is no model that fits the experiment.
Json evaluate_run(const Experiment& experiment, const std::filesystem::path& folder, std::size_t threads);

// A finished run and what it was made from.
struct FinishedRun {
  const Experiment* experiment;
  std::filesystem::path folder;
};
// The mean prediction of several finished models on the test data that they share (Lakshminarayanan et al. 2017):
// ensemble_loss, ensemble_accuracy, … and, with evaluate.ood, ensemble_ood_auroc. Throws InputError, also when their
// test data differ.
std::map<std::string, double> evaluate_together(const std::vector<FinishedRun>& runs, std::size_t threads);

}  // namespace parley
