#include "parley/report/clients.h"

#include <fmt/format.h>

#include <algorithm>

#include "parley/report/html.h"

namespace parley {
namespace {

// In rising order, over all seeds.
std::vector<double> gains_of(const ReportGroup& group) {
  std::vector<double> gains;
  for (const ReportRun* run : group.counted) {
    for (const auto& client : run->clients) {
      if (client.gain) gains.push_back(*client.gain);
    }
  }
  std::ranges::sort(gains);
  return gains;
}

double quantile(const std::vector<double>& sorted, double part) {
  return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1) + 0.5)];
}

double share(const std::vector<double>& values, bool (*wanted)(double)) {
  return 100.0 * static_cast<double>(std::ranges::count_if(values, wanted)) / static_cast<double>(values.size());
}

// With a column for fine-tuned models if any group has them.
std::string table_row(const ReportGroup& group, const std::vector<double>& gains, bool classified, bool tuned) {
  const auto measured = [&](const char* whose) {
    const auto value = group.last(whose + std::string(classified ? "_accuracy" : "_loss"));
    if (!value) return std::string("–");
    return classified ? fmt::format("{:.2f}", 100.0 * value->mean) : fmt::format("{:.4g}", value->mean);
  };
  const auto gain = [&](double part) {
    return classified ? fmt::format("{:+.1f}", quantile(gains, part)) : fmt::format("{:+.3g}", quantile(gains, part));
  };
  return fmt::format(
      "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td>{}<td>{:.0f} %</td><td>{:.0f} %</td><td>{}</td><td>{}</td>"
      "<td>{}</td></tr>\n",
      escape(group.label), measured("s"), measured("mt"), tuned ? fmt::format("<td>{}</td>", measured("finetune")) : "",
      share(gains, [](double x) { return x > 0.0; }), share(gains, [](double x) { return x < 0.0; }), gain(0.1),
      gain(0.5), gain(0.9));
}

// Clients from the one that loses most to the one that gains most, as an outline over the zero line.
std::string drawing(const std::vector<double>& gains, double reach, std::size_t colour) {
  const double step = 1000.0 / static_cast<double>(gains.size());
  std::string outline = "M0 500";
  for (std::size_t i = 0; i < gains.size(); ++i) {
    outline += fmt::format("V{:.1f}H{:.1f}", 500.0 - 500.0 * gains[i] / reach, step * static_cast<double>(i + 1));
  }
  const std::string shapes = fmt::format(
      "<path d=\"{0}V500z\" fill=\"var(--s{1})\" fill-opacity=\"0.55\" stroke=\"var(--s{1})\"/>"
      "<path class=\"zero\" d=\"M0 500H1000\"/>",
      outline, colour % kColours);
  return framed_drawing(shapes, "Gain of each client, sorted",
                        {fmt::format("+{:.3g}", reach), "0", fmt::format("−{:.3g}", reach)},
                        {"loses most", "gains most"});
}

}  // namespace

std::string clients_section(const std::vector<ReportGroup>& groups) {
  std::string rows, drawings;
  bool classified = false;
  for (const auto& group : groups) {
    for (const ReportRun* run : group.counted) {
      classified |= std::ranges::any_of(run->clients, &ReportClient::classified);
    }
  }
  const bool tuned = std::ranges::any_of(
      groups, [](const ReportGroup& group) { return group.last("finetune_loss") || group.last("finetune_accuracy"); });
  double reach = classified ? 1.0 : 1e-6;  // one scale for all, so that the drawings compare
  for (const auto& group : groups) {
    for (const double gain : gains_of(group)) reach = std::max(reach, std::abs(gain));
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto gains = gains_of(groups[g]);
    if (gains.empty()) continue;
    rows += table_row(groups[g], gains, classified, tuned);
    drawings += fmt::format("<p>{}</p>\n{}", escape(groups[g].label), drawing(gains, reach, g));
  }
  if (rows.empty()) return "";
  const std::string unit = classified ? ", %" : ", loss";
  const std::string heads =
      column_head("S" + unit, "the shared model on the clients' own test data") +
      column_head("MT" + unit, "each client's own model, after its last training, on its own test data") +
      (tuned ? column_head("Fine-tuned" + unit, "the shared model after a few more epochs at the client") : "") +
      column_head("Clients that gain", "share of clients whose own model does better than the shared one") +
      column_head("that lose", "share of clients whose own model does worse than the shared one") +
      column_head("Gain, 10th percentile", "nine in ten clients gain at least this much") +
      column_head("median", "half of the clients gain at least this much") +
      column_head("90th", "one in ten clients gains at least this much");
  return fmt::format(
      "\n<section aria-labelledby=\"h-clients\">\n<h2 id=\"h-clients\">Per-client results</h2>\n"
      "<p class=\"note\">On the clients' own test data. S: the shared model; MT: the client's own model after its last "
      "training; gain: {2}, client by client.</p>\n"
      "<div class=\"table small result\"><table>\n<thead><tr><th scope=\"col\">Method</th>{3}</tr></thead>\n<tbody>\n"
      "{0}</tbody>\n</table></div>\n"
      "<div id=\"clients-charts\" class=\"charts\"></div>\n<div class=\"card gains\">\n<p class=\"note\">Each client's "
      "gain, "
      "from the one that loses most to the one that gains most; one scale for all methods.</p>\n{1}</div>\n"
      "</section>\n",
      rows, drawings, classified ? "MT less S, in points of accuracy" : "S less MT, in loss", heads);
}

}  // namespace parley
