#include "parley/report/clients.h"

#include <fmt/format.h>

#include <algorithm>

#include "parley/report/html.h"

namespace parley {
namespace {

constexpr double kWidth = 860.0, kHeight = 120.0, kLeft = 46.0, kTop = 12.0;

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

std::string table_row(const ReportGroup& group, const std::vector<double>& gains, bool classified) {
  const auto measured = [&](const char* whose) {
    const auto value = group.last(whose + std::string(classified ? "_accuracy" : "_loss"));
    if (!value) return std::string("–");
    return classified ? fmt::format("{:.2f}", 100.0 * value->mean) : fmt::format("{:.4g}", value->mean);
  };
  const auto gain = [&](double part) {
    return classified ? fmt::format("{:+.1f}", quantile(gains, part)) : fmt::format("{:+.3g}", quantile(gains, part));
  };
  return fmt::format(
      "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{:.0f} %</td><td>{:.0f} %</td>"
      "<td>{}</td><td>{}</td><td>{}</td></tr>\n",
      escape(group.label), measured("s"), measured("mt"), measured("finetune"),
      share(gains, [](double x) { return x > 0.0; }), share(gains, [](double x) { return x < 0.0; }), gain(0.1),
      gain(0.5), gain(0.9));
}

// Clients from the one that loses most to the one that gains most, as an outline over the zero line.
std::string drawing(const std::vector<double>& gains, double reach, std::size_t colour) {
  const double middle = kTop + (kHeight - 2 * kTop) / 2, unit = (kHeight - 2 * kTop) / 2 / reach;
  const double step = (kWidth - kLeft) / static_cast<double>(gains.size());
  std::string outline = fmt::format("M{} {:.1f}", kLeft, middle);
  for (std::size_t i = 0; i < gains.size(); ++i) {
    outline += fmt::format("V{:.1f}H{:.1f}", middle - unit * gains[i], kLeft + step * static_cast<double>(i + 1));
  }
  const auto text = [](double y, const std::string& what) {
    return fmt::format(
        "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\" font-size=\"11\" fill=\"currentColor\">{}</text>", kLeft - 6,
        y, what);
  };
  return fmt::format(
      "<svg viewBox=\"0 0 {0} {1}\" width=\"100%\" role=\"img\" aria-label=\"Gain of each client, sorted\">{2}{3}{4}"
      "<path d=\"{5}V{6:.1f}z\" fill=\"var(--s{7})\" fill-opacity=\"0.55\" stroke=\"var(--s{7})\"/>"
      "<path d=\"M{8} {6:.1f}H{0}\" stroke=\"currentColor\" stroke-opacity=\"0.5\"/></svg>\n",
      kWidth, kHeight, text(kTop + 4, fmt::format("+{:.3g}", reach)), text(middle + 4, "0"),
      text(kHeight - kTop + 4, fmt::format("−{:.3g}", reach)), outline, middle, colour % kColours, kLeft);
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
  double reach = classified ? 1.0 : 1e-6;  // one scale for all, so that the drawings compare
  for (const auto& group : groups) {
    for (const double gain : gains_of(group)) reach = std::max(reach, std::abs(gain));
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto gains = gains_of(groups[g]);
    if (gains.empty()) continue;
    rows += table_row(groups[g], gains, classified);
    drawings += fmt::format("<p>{}</p>\n{}", escape(groups[g].label), drawing(gains, reach, g));
  }
  if (rows.empty()) return "";
  return fmt::format(
      "\n<section aria-labelledby=\"h-clients\">\n<h2 id=\"h-clients\">Per-client results</h2>\n"
      "<p class=\"note\">On the clients' own test data. S: the shared model; MT: the client's own model after its last "
      "training; gain: {2}, client by client.</p>\n"
      "<div class=\"table small\"><table>\n<thead><tr><th scope=\"col\">Method</th><th scope=\"col\">S{3}</th>"
      "<th scope=\"col\">MT{3}</th><th scope=\"col\">Fine-tuned{3}</th><th scope=\"col\">Clients that gain</th>"
      "<th scope=\"col\">that lose</th><th scope=\"col\">Gain, 10th percentile</th><th scope=\"col\">median</th>"
      "<th scope=\"col\">90th</th></tr></thead>\n<tbody>\n{0}</tbody>\n</table></div>\n"
      "<div id=\"clients-charts\" class=\"charts\"></div>\n<div class=\"card\">\n<p class=\"note\">Each client's gain, "
      "from who loses most to who gains "
      "most.</p>\n{1}</div>\n"
      "</section>\n",
      rows, drawings, classified ? "MT less S, in points of accuracy" : "S less MT, in loss",
      classified ? ", %" : ", loss");
}

}  // namespace parley
