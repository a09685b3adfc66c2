// Several runs that belong together: a comparison of methods over seeds, or a sweep over settings.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "parley/base/spread.h"
#include "parley/engine/run.h"

namespace parley {

struct StudyRun {
  std::string label;   // what is compared: method and point; runs of one label differ in their seed only
  std::string method;  // as --methods names it: "fedprox mu=0.1"
  std::string point;   // of a sweep: "client.lr=0.1 partition.alpha=10"
  std::int64_t seed;
  Settings settings;
  std::filesystem::path folder;
};

// The parts of a text between `at`s that stand neither in a list nor in quotes: "a:b=[1,2]" at ',' is one part.
std::vector<std::string> split_outside_lists(const std::string& text, char at);

// A method and how it differs from the file: "fedavg", "fedprox:mu=0.1", "fedavg:server.step=adam:server.lr=0.01".
// Keys without a section belong to [method].
std::vector<StudyRun> plan_compare(const Config& config, const std::vector<std::string>& methods,
                                   const std::vector<std::int64_t>& seeds, const Catalogue& catalogue,
                                   const std::filesystem::path& out);

// Every combination of the lists in [sweep], whose keys are "section.key", for each method and seed; an empty list
// means the file's own.
std::vector<StudyRun> plan_sweep(const Config& config, const std::vector<std::string>& methods,
                                 const std::vector<std::int64_t>& seeds, const Catalogue& catalogue,
                                 const std::filesystem::path& out);

enum class RunFate { done_before, resumed, fresh };
struct StudyResult {
  const StudyRun* run;
  RunFate fate;
  std::vector<Json> metrics;
};

// Runs what is not finished yet, in order; one that only has fewer rounds than are wanted goes on. A run that failed
// does not stop the others; its reason is in `failures`. Throws InputError before the first when a folder holds a run
// with other settings, unless controls.overwrite says that it may be replaced.
struct StudyHooks {
  std::function<void(const StudyRun&, std::size_t index)> starting;
  std::function<void(const StudyResult&)> finished;
  std::function<void(const StudyRun&, const std::string& reason)> failed;
};
std::vector<StudyResult> run_study(const std::vector<StudyRun>& runs, const Catalogue& catalogue,
                                   const RunControls& controls, const StudyHooks& hooks);

// One row of the closing table: a label over its seeds.
struct StudyRow {
  std::string label, method, point;
  std::size_t seeds = 0;
  bool classified = false;
  std::map<std::string, double> total;  // of every number of the metrics, over the rounds of a run, on average
  std::map<std::string, Spread> last;   // every number of the last round's metrics, by its name there
  std::map<std::string, Spread> best;   // likewise, the greatest over the rounds
};
std::vector<StudyRow> summarise(const std::vector<StudyResult>& results);

}  // namespace parley
