// Printing: tables, a live progress bar on a terminal, plain lines in a log.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "parley/engine/run.h"

namespace parley::app {

bool is_terminal();

// Columns as wide as their widest cell; the first is left-aligned, the others right-aligned. A column without any cell
// is left out.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text();

 private:
  void drop_empty_columns();

  std::vector<std::vector<std::string>> rows_;
};

std::string percent(double share);          // "87.31 %"
std::string bytes_text(double bytes);       // "21.3 MB"
std::string duration_text(double seconds);  // "1:23" or "4.2 s"
std::size_t display_width(const std::string& utf8);
// "test accuracy 78.01 %, test loss 0.5666": the last line of a run's metrics, for people.
std::string result_text(const Json& metrics);
// The same behind the rounds and their time: "10 rounds in 3.0 s, …".
std::string summary_text(const RunSummary& summary);

// One run at a time; `title` stands before the bar.
class ProgressBar final : public Progress {
 public:
  void title(std::string text) { title_ = std::move(text); }
  void started(std::size_t round, std::size_t rounds) override;
  void client_done(std::size_t finished, std::size_t cohort) override;
  void round_done(const Json& metrics) override;
  // Clears the bar, so that something else can be printed.
  void clear();

 private:
  void draw(std::size_t finished, std::size_t cohort);

  std::string title_;
  std::size_t first_round_ = 0, round_ = 0, rounds_ = 0;
  std::string last_;
  std::chrono::steady_clock::time_point begin_{}, drawn_{};
};

}  // namespace parley::app
