#include "parley/report/classes.h"

#include <fmt/format.h>

#include <algorithm>

#include "parley/report/html.h"

namespace parley {
namespace {

using Counts = std::vector<std::vector<std::int64_t>>;  // true class × guess

constexpr std::size_t kMostClasses = 30;  // that a table can show

// Over all seeds that count; empty when they have none, or not of one size.
Counts confusion_of(const ReportGroup& group) {
  Counts sum;
  for (const ReportRun* run : group.counted) {
    if (sum.empty()) {
      sum = run->confusion;
      continue;
    }
    if (run->confusion.size() != sum.size()) return {};
    for (std::size_t i = 0; i < sum.size(); ++i) {
      for (std::size_t j = 0; j < sum.size(); ++j) sum[i][j] += run->confusion[i][j];
    }
  }
  return sum;
}

std::vector<ReportBin> reliability_of(const ReportGroup& group) {
  std::vector<ReportBin> sum;
  for (const ReportRun* run : group.counted) {
    if (sum.size() < run->reliability.size()) sum.resize(run->reliability.size());
    for (std::size_t b = 0; b < run->reliability.size(); ++b) {
      sum[b].count += run->reliability[b].count;
      sum[b].confidence += run->reliability[b].confidence;
      sum[b].correct += run->reliability[b].correct;
    }
  }
  return sum;
}

std::string class_name(const ReportGroup& group, std::size_t c) {
  const auto& names = group.counted.front()->class_names;
  return c < names.size() ? names[c] : fmt::format("{}", c);
}

// How much of a true class went where; in percent, and the deeper the more.
std::string share_cell(std::int64_t part, std::int64_t all, const char* kind) {
  if (all == 0) return "<td>–</td>";
  const double share = static_cast<double>(part) / static_cast<double>(all);
  return fmt::format("<td class=\"{}\" style=\"--v:{:.3f}\" title=\"{} of {}\">{}</td>", kind, share, part, all,
                     part == 0 ? "·" : fmt::format("{:.0f}", 100.0 * share));
}

std::int64_t row_sum(const std::vector<std::int64_t>& row) {
  std::int64_t sum = 0;
  for (const auto count : row) sum += count;
  return sum;
}

std::string class_heads(const ReportGroup& group, std::size_t classes) {
  std::string heads;
  for (std::size_t c = 0; c < classes; ++c) {
    heads += fmt::format("<th scope=\"col\">{}</th>", escape(class_name(group, c)));
  }
  return heads;
}

std::string confusion_table(const ReportGroup& group, const Counts& counts) {
  std::string rows;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    rows += fmt::format("<tr><th scope=\"row\">{}</th>", escape(class_name(group, i)));
    const std::int64_t all = row_sum(counts[i]);
    for (std::size_t j = 0; j < counts.size(); ++j) rows += share_cell(counts[i][j], all, i == j ? "right" : "wrong");
    rows += "</tr>\n";
  }
  return fmt::format(
      "<details><summary>{}: what each class is taken for</summary>\n<div class=\"table small\"><table "
      "class=\"shares\">\n"
      "<thead><tr><th scope=\"col\">true class</th>{}</tr></thead>\n<tbody>\n{}</tbody>\n</table></div></details>\n",
      escape(group.label), class_heads(group, counts.size()), rows);
}

std::string accuracy_row(const ReportGroup& group, const Counts& counts) {
  std::string row = fmt::format("<tr><th scope=\"row\">{}</th>", escape(group.label));
  for (std::size_t c = 0; c < counts.size(); ++c) row += share_cell(counts[c][c], row_sum(counts[c]), "right");
  return row + "</tr>\n";
}

// Bars of the accuracy in each bin of confidence over the diagonal on which it should lie; the wider the gap, the less
// the model knows what it knows.
std::string reliability_drawing(const ReportGroup& group, const std::vector<ReportBin>& bins, std::size_t colour) {
  constexpr double kSide = 200.0, kLeft = 34.0, kBottom = 24.0;
  const auto x = [](double share) { return kLeft + kSide * share; };
  const auto y = [](double share) { return 6.0 + kSide * (1.0 - share); };
  const double width = 1.0 / static_cast<double>(bins.size());
  std::string bars;
  for (std::size_t b = 0; b < bins.size(); ++b) {
    if (bins[b].count == 0) continue;
    const double accuracy = static_cast<double>(bins[b].correct) / static_cast<double>(bins[b].count);
    const double confidence = bins[b].confidence / static_cast<double>(bins[b].count);
    bars += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"var(--s{})\" fill-opacity=\"0.6\">"
        "<title>{} examples: confidence {:.1f} %, right {:.1f} %</title></rect>",
        x(width * static_cast<double>(b)) + 0.5, y(accuracy), kSide * width - 1.0, kSide * accuracy, colour % kColours,
        bins[b].count, 100.0 * confidence, 100.0 * accuracy);
  }
  return fmt::format(
      "<figure class=\"reliability\"><svg viewBox=\"0 0 {0} {1}\" role=\"img\" aria-label=\"Accuracy against "
      "confidence\">"
      "<path class=\"axis\" d=\"M{2} 6V{3}H{0}\" fill=\"none\"/>{4}"
      "<path d=\"M{2} {3}L{5} 6\" stroke=\"currentColor\" stroke-dasharray=\"4 4\" fill=\"none\"/>"
      "<text x=\"{6}\" y=\"12\" text-anchor=\"end\">100</text><text x=\"{6}\" y=\"{3}\" text-anchor=\"end\">0</text>"
      "<text x=\"{5}\" y=\"{7}\" text-anchor=\"end\">confidence, %</text></svg><figcaption>{8}</figcaption></figure>\n",
      kLeft + kSide + 6.0, kSide + kBottom + 6.0, kLeft, 6.0 + kSide, bars, kLeft + kSide, kLeft - 6.0, kSide + kBottom,
      escape(group.label));
}

}  // namespace

std::string classes_section(const std::vector<ReportGroup>& groups) {
  std::string rows, tables, drawings, heads;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Counts counts = confusion_of(groups[g]);
    if (!counts.empty() && counts.size() <= kMostClasses) {
      if (heads.empty()) heads = class_heads(groups[g], counts.size());
      rows += accuracy_row(groups[g], counts);
      tables += confusion_table(groups[g], counts);
    }
    if (const auto bins = reliability_of(groups[g]); !bins.empty()) {
      drawings += reliability_drawing(groups[g], bins, g);
    }
  }
  if (rows.empty() && drawings.empty()) return "";
  std::string result = "\n<section aria-labelledby=\"h-classes\">\n<h2 id=\"h-classes\">Classes and confidence</h2>\n";
  if (!rows.empty()) {
    result += fmt::format(
        "<p class=\"note\">Test accuracy on each class after the last round, %.</p>\n<div class=\"table small\"><table "
        "class=\"shares\">\n<thead><tr><th "
        "scope=\"col\">Method</th>{}</tr></thead>\n<tbody>\n{}</tbody>\n</table></div>\n"
        "<div class=\"card configs\">\n{}</div>\n",
        heads, rows, tables);
  }
  if (!drawings.empty()) {
    result += fmt::format(
        "<p class=\"note spaced\">How often the model is right, by how sure it is: bars on the dashed line are well "
        "calibrated, below it the model is too sure of itself.</p>\n<div class=\"card figures\">\n{}</div>\n",
        drawings);
  }
  return result + "</section>\n";
}

}  // namespace parley
