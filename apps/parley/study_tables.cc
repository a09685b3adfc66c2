#include "study_tables.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "terminal.h"

namespace parley::app {
namespace {

std::string spread_text(const Spread& spread, std::size_t seeds, double scale, const char* format) {
  const std::string mean = fmt::format(fmt::runtime(format), scale * spread.mean);
  return seeds > 1 ? fmt::format("{} ± {}", mean, fmt::format(fmt::runtime(format), scale * spread.deviation)) : mean;
}

double total_of(const StudyRow& row, const char* name) {
  const auto found = row.total.find(name);
  return found == row.total.end() ? 0.0 : found->second;
}

std::string study_table(std::vector<StudyRow> rows) {
  const bool classified = !rows.empty() && rows.front().classified;
  Table table(classified
                  ? std::vector<std::string>{"", "final acc. %", "best acc. %", "test loss", "up", "down", "train time"}
                  : std::vector<std::string>{"", "test loss", "up", "down", "train time"});
  for (const auto& row : rows) {
    std::vector<std::string> cells{row.label};
    if (classified) {
      cells.push_back(spread_text(row.last.at("test_accuracy"), row.seeds, 100.0, "{:.2f}"));
      cells.push_back(spread_text(row.best.at("test_accuracy"), row.seeds, 100.0, "{:.2f}"));
    }
    cells.push_back(spread_text(row.last.at("test_loss"), row.seeds, 1.0, "{:.4f}"));
    cells.push_back(bytes_text(total_of(row, "bytes_up")));
    cells.push_back(bytes_text(total_of(row, "bytes_down")));
    cells.push_back(duration_text(total_of(row, "seconds")));
    table.add(cells);
  }
  return table.text();
}

// A sweep over several methods: a row a point, a column a method.
std::string sweep_table(const std::vector<StudyRow>& rows, const std::vector<std::string>& methods) {
  std::vector<std::string> header{rows.front().classified ? "final acc. %" : "test loss"};
  header.insert(header.end(), methods.begin(), methods.end());
  Table table(header);
  std::vector<std::string> points;
  for (const auto& row : rows) {
    if (std::ranges::find(points, row.point) == points.end()) points.push_back(row.point);
  }
  for (const auto& point : points) {
    std::vector<std::string> cells{point};
    for (const auto& method : methods) {
      const auto row =
          std::ranges::find_if(rows, [&](const StudyRow& one) { return one.point == point && one.method == method; });
      cells.push_back(row == rows.end() ? "failed"
                      : row->classified ? spread_text(row->last.at("test_accuracy"), row->seeds, 100.0, "{:.2f}")
                                        : spread_text(row->last.at("test_loss"), row->seeds, 1.0, "{:.4f}"));
    }
    table.add(cells);
  }
  return table.text();
}

// What a run cost, whatever its method.
std::string cost_table(const std::vector<StudyRow>& rows) {
  Table table({"cost of a run", "transmissions", "bytes", "epochs", "gradients", "simulated time"});
  for (const auto& row : rows) {
    if (!row.total.contains("transmissions")) continue;  // a run of an older version
    table.add({row.label, fmt::format("{:.0f}", total_of(row, "transmissions")),
               bytes_text(total_of(row, "bytes_up") + total_of(row, "bytes_down")),
               fmt::format("{:.0f}", total_of(row, "epochs")), fmt::format("{:.3g}", total_of(row, "examples")),
               duration_text(total_of(row, "simulated_seconds"))});
  }
  return fmt::format("\n{}", table.text());
}

// What the clients have of it; empty when they were not asked.
std::string client_table(const std::vector<StudyRow>& rows) {
  const auto has = [](const char* name) { return [name](const StudyRow& row) { return row.last.contains(name); }; };
  if (std::ranges::none_of(rows, has("s_loss"))) return "";
  const bool classified = rows.front().classified, tuned = std::ranges::any_of(rows, has("finetune_loss"));
  using Column = std::tuple<const char*, const char*, bool>;  // header, metric, whether the best round counts
  std::vector<Column> columns;
  if (classified) {
    columns = {{"S acc. %", "s_accuracy", false},
               {"best", "s_accuracy", true},
               {"MT acc. %", "mt_accuracy", false},
               {"best", "mt_accuracy", true},
               {"MT ECE", "mt_ece", false}};
  }
  columns.insert(columns.end(), {{"S loss", "s_loss", false}, {"MT loss", "mt_loss", false}});
  if (tuned && classified) columns.push_back({"fine-tuned %", "finetune_accuracy", false});
  if (tuned && !classified) columns.push_back({"fine-tuned loss", "finetune_loss", false});
  if (tuned) columns.push_back({"worse for %", "finetune_worse", false});
  std::vector<std::string> header{"clients' own data"};
  for (const auto& column : columns) header.push_back(std::get<0>(column));
  Table table(header);
  for (const auto& row : rows) {
    std::vector<std::string> cells{row.label};
    for (const auto& [title, name, best] : columns) {
      const auto& values = best ? row.best : row.last;
      const bool percent = std::string_view(title).ends_with("%") || best;
      const auto found = values.find(name);
      cells.push_back(found == values.end() ? ""
                                            : spread_text(found->second, row.seeds, percent ? 100.0 : 1.0,
                                                          percent ? "{:.2f}" : "{:.4f}"));
    }
    table.add(cells);
  }
  return fmt::format("\n{}", table.text());
}

std::string uncertainty_table(const std::vector<StudyRow>& rows) {
  const auto has = [](const char* name) { return [name](const StudyRow& row) { return row.last.contains(name); }; };
  const bool ood = std::ranges::any_of(rows, has("ood_auroc"));
  const auto measured = [&](const char* name) { return std::ranges::any_of(rows, has(name)); };
  if (!ood && !measured("posterior_loss") && !measured("tempered_loss") && !measured("ensemble_loss")) return "";
  Table table({"uncertainty", "NLL", "ECE", "Brier", "covered", "by", "OOD AUROC"});
  const auto add = [&](const StudyRow& row, const std::string& label, const std::string& prefix, const char* auroc) {
    std::vector<std::string> cells{label};
    for (const std::string& name : {prefix + "_loss", prefix + "_ece", prefix + "_brier", prefix + "_coverage",
                                    prefix + "_set_size", std::string(auroc)}) {
      const auto found = row.last.find(name);
      cells.push_back(found == row.last.end() ? "" : spread_text(found->second, row.seeds, 1.0, "{:.4f}"));
    }
    table.add(cells);
  };
  for (const auto& row : rows) {
    add(row, row.label + ", the model", "test", "ood_auroc");
    if (const auto found = row.last.find("temperature"); found != row.last.end()) {
      add(row, fmt::format("{}, at temperature {:.3g}", row.label, found->second.mean), "tempered",
          "tempered_ood_auroc");
    }
    if (row.last.contains("posterior_loss")) {
      add(row, row.label + ", networks drawn", "posterior", "posterior_ood_auroc");
    }
    if (row.last.contains("ensemble_loss")) {
      add(row, "all runs together", "ensemble", "ensemble_ood_auroc");
    }
  }
  return fmt::format("\n{}", table.text());
}

}  // namespace

std::string measured_tables(const std::vector<StudyRow>& rows) {
  return client_table(rows) + uncertainty_table(rows);
}

std::string closing_tables(const std::vector<StudyRun>& runs, const std::vector<StudyResult>& results) {
  auto rows = summarise(results);
  std::vector<std::string> methods;
  for (const auto& run : runs) {
    if (std::ranges::find(methods, run.method) == methods.end()) methods.push_back(run.method);
  }
  const bool sweep = !runs.front().point.empty();
  std::string grid;
  if (sweep && methods.size() > 1 && !rows.empty()) grid = sweep_table(rows, methods) + "\n";
  if (sweep) {
    std::ranges::stable_sort(rows, [](const StudyRow& a, const StudyRow& b) {
      const char* const name = a.classified ? "test_accuracy" : "test_loss";
      const double left = a.last.at(name).mean, right = b.last.at(name).mean;
      return a.classified ? left > right : left < right;
    });
  }
  return grid + study_table(rows) + measured_tables(rows) + cost_table(rows);
}

}  // namespace parley::app
