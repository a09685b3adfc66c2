#include "terminal.h"

#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "parley/base/counted.h"

namespace parley::app {
namespace {

using Clock = std::chrono::steady_clock;

std::size_t terminal_width() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20) return size.ws_col;
  return 80;
}

std::string bar(double share, std::size_t width) {
  const auto full = static_cast<std::size_t>(share * static_cast<double>(width));
  std::string text;
  for (std::size_t i = 0; i < width; ++i) text += i < full ? "█" : "░";
  return text;
}

// "test 87.3 %  loss 0.412  posterior 0.398": what a person wants to see of a round.
std::string headline(const Json& metrics) {
  std::string text;
  if (metrics.contains("test_accuracy"))
    text += fmt::format("test {}  ", percent(metrics["test_accuracy"].get<double>()));
  if (metrics.contains("test_r2")) text += fmt::format("R² {:.3f}  ", metrics["test_r2"].get<double>());
  if (metrics.contains("test_loss")) text += fmt::format("loss {:.4g}  ", metrics["test_loss"].get<double>());
  if (metrics.contains("posterior_loss")) {
    text += fmt::format("posterior {:.4g}  ", metrics["posterior_loss"].get<double>());
  }
  if (metrics.contains("refused")) text += fmt::format("refused {}  ", metrics["refused"].size());
  return text;
}

}  // namespace

bool is_terminal() {
  return ::isatty(STDOUT_FILENO) != 0;
}

std::size_t display_width(const std::string& utf8) {
  return static_cast<std::size_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

void Table::drop_empty_columns() {
  for (std::size_t c = rows_.front().size(); c-- > 1;) {
    if (std::ranges::any_of(rows_.begin() + 1, rows_.end(), [&](const auto& row) { return !row[c].empty(); })) continue;
    for (auto& row : rows_) row.erase(row.begin() + static_cast<std::ptrdiff_t>(c));
  }
}

std::string Table::text() {
  if (rows_.size() > 1) drop_empty_columns();
  std::vector<std::size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], display_width(row[c]));
  }
  std::string text;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (std::size_t c = 0; c < rows_[r].size(); ++c) {
      const std::string pad(widths[c] - display_width(rows_[r][c]), ' ');
      if (c > 0) line += "  ";
      line += c == 0 ? rows_[r][c] + pad : pad + rows_[r][c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
    if (r == 0) {
      std::size_t total = 2 * (widths.size() - 1);
      for (const auto width : widths) total += width;
      for (std::size_t i = 0; i < total; ++i) text += "─";
      text += "\n";
    }
  }
  return text;
}

std::string result_text(const Json& metrics) {
  std::vector<std::string> parts;
  const auto add = [&](const char* key, auto text) {
    if (metrics.contains(key)) parts.push_back(text(metrics[key].get<double>()));
  };
  add("test_accuracy", [](double value) { return "test accuracy " + percent(value); });
  add("test_r2", [](double value) { return fmt::format("test R² {:.4f}", value); });
  add("test_rmse", [](double value) { return fmt::format("RMSE {:.6g}", value); });
  add("test_mae", [](double value) { return fmt::format("MAE {:.6g}", value); });
  add("test_loss", [](double value) { return fmt::format("test loss {:.4f}", value); });
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string summary_text(const RunSummary& summary) {
  const std::string rounds =
      fmt::format("{} in {}", counted(summary.metrics.size(), "round"), duration_text(summary.seconds));
  const std::string result = result_text(summary.metrics.back());
  return result.empty() ? rounds : rounds + ", " + result;
}

std::string percent(double share) {
  return fmt::format("{:.2f} %", 100.0 * share);
}

std::string bytes_text(double bytes) {
  static const char* const units[] = {"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (bytes >= 1000.0 && unit < 4) {
    bytes /= 1000.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, units[unit]);
}

std::string duration_text(double seconds) {
  if (seconds < 60.0) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<long>(seconds + 0.5);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

void ProgressBar::started(std::size_t round, std::size_t rounds) {
  if (round_ == 0 || round <= round_) {
    first_round_ = round;
    begin_ = Clock::now();
    last_.clear();
  }
  round_ = round;
  rounds_ = rounds;
  draw(0, 1);
}

void ProgressBar::client_done(std::size_t finished, std::size_t cohort) {
  if (Clock::now() - drawn_ > std::chrono::milliseconds(50)) draw(finished, cohort);
}

void ProgressBar::draw(std::size_t finished, std::size_t cohort) {
  if (!is_terminal()) return;
  drawn_ = Clock::now();
  const double in_round = static_cast<double>(finished) / static_cast<double>(cohort);
  const double done = static_cast<double>(round_ - first_round_) + in_round;
  const double todo = static_cast<double>(rounds_ - first_round_ + 1);
  const double elapsed = std::chrono::duration<double>(drawn_ - begin_).count();
  std::string line =
      fmt::format("{}  round {}/{}  {}  {}", title_, round_, rounds_,
                  bar((static_cast<double>(round_ - 1) + in_round) / static_cast<double>(rounds_), 20), last_);
  if (done > 0.2 && elapsed > 1.0) line += fmt::format("left {}", duration_text(elapsed / done * (todo - done)));
  // A line that wraps could not be drawn over.
  const std::size_t width = terminal_width() - 1;
  while (display_width(line) > width) {
    line.pop_back();
    while (!line.empty() && (static_cast<unsigned char>(line.back()) & 0xc0) == 0x80) line.pop_back();
  }
  fmt::print("\r\033[K{}", line);
  std::fflush(stdout);
}

void ProgressBar::round_done(const Json& metrics) {
  last_ = headline(metrics);
  for (const auto& [key, said] : {std::pair("notes", "note: "), std::pair("refused", "refused ")}) {
    if (!metrics.contains(key)) continue;
    clear();
    for (const auto& text : metrics[key]) {
      fmt::print("  round {}: {}{}\n", metrics["round"].get<std::size_t>(), said, text.get<std::string>());
    }
  }
  if (is_terminal()) {
    draw(1, 1);
  } else {
    fmt::print("{}  round {}/{}  {}train {:.4g}  {:.1f} s\n", title_, round_, rounds_, last_,
               metrics.value("train_loss", 0.0), metrics.value("seconds", 0.0));
    std::fflush(stdout);
  }
}

void ProgressBar::clear() {
  if (is_terminal()) {
    fmt::print("\r\033[K");
    std::fflush(stdout);
  }
}

}  // namespace parley::app
