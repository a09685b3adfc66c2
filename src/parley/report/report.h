// The report: what some run folders hold, as one HTML page that needs no network and no other file.
//
// Order:    read_runs -> render_report. Neither writes anything; the caller puts the page where it belongs.
// Failure:  read_runs throws InputError: "file:line: what is wrong; what to do". render_report cannot fail.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace parley {

// One stop of a travelling model.
struct ReportVisit {
  std::int64_t model = 0;
  std::int64_t node = 0;
  double end = 0.0;            // simulated seconds
  std::optional<double> gain;  // in accuracy at that node; none when the visit was lost or refused
};

// One line of metrics.jsonl.
struct ReportRound {
  std::int64_t round = 0;
  std::map<std::string, double> values;  // every number of the line but the round; what was not measured is absent
  std::vector<std::string> refused;      // clients whose update was refused
  std::vector<ReportVisit> visits;       // in the order in which they ended
};

// Test examples of about one confidence.
struct ReportBin {
  std::int64_t count = 0;
  double confidence = 0.0;  // sum
  std::int64_t correct = 0;
};

// What one client has of a run on its own test data.
struct ReportClient {
  // Of its own model over the shared one: points of accuracy, or, where nothing is classified, how much lower its loss.
  std::optional<double> gain;
  bool classified = false;
};

// One run folder. Everything but the name may be missing from it.
struct ReportRun {
  std::string name;   // the folder's
  std::string label;  // what is compared: "fedprox mu=0.01"
  std::string method;
  std::string state = "unfinished";  // "done", "running", "failed"; "unfinished" without a run.json
  std::string version;
  std::string cpu;
  std::string data;
  std::string partition;
  std::string model;
  std::optional<std::int64_t> seed;
  std::optional<std::int64_t> planned_rounds;
  std::optional<std::int64_t> parameters;
  std::optional<std::int64_t> cores;
  std::optional<std::int64_t> threads;
  std::optional<double> wall_seconds;
  std::vector<std::vector<std::int64_t>> label_histogram;  // client × class; of very many clients some
  std::int64_t client_count = 0;                           // in all
  std::vector<std::string> class_names;
  std::string config;  // the text of config.toml
  std::vector<ReportRound> rounds;
  std::vector<std::vector<std::int64_t>> confusion;  // true class × guess, of the last evaluation
  std::vector<ReportBin> reliability;                // likewise
  std::vector<ReportClient> clients;                 // those with test data of their own, after the last evaluation
};

struct ReportData {
  std::string name;  // of the folder the runs were found in
  std::vector<ReportRun> runs;
};

// Reads run folders, and the run folders directly inside the other folders given, in the order given and by name below
// that; a folder given twice counts once. A last line of metrics.jsonl that is still being written is left out.
ReportData read_runs(std::span<const std::filesystem::path> folders);

// Runs that differ only in their seed are one row and one line, with mean and standard deviation.
std::string render_report(const ReportData& data);

}  // namespace parley
