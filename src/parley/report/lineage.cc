#include "parley/report/lineage.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "parley/report/html.h"

namespace parley {
namespace {

constexpr std::size_t kDrawn = 600;     // visits of a run; more would be a thicket
constexpr std::size_t kMostInKey = 24;  // models; the table below has them all

// What one model did in a run.
struct Journey {
  std::vector<ReportVisit> visits;  // in order, the lost ones too
  std::set<std::int64_t> nodes;     // where it was trained
  std::size_t trained = 0, lost = 0;
  double gain = 0.0;  // summed over the visits
};

std::map<std::int64_t, Journey> journeys_of(const ReportRun& run) {
  std::map<std::int64_t, Journey> journeys;
  for (const auto& round : run.rounds) {
    for (const auto& visit : round.visits) {
      Journey& journey = journeys[visit.model];
      journey.visits.push_back(visit);
      if (!visit.gain) {
        ++journey.lost;
        continue;
      }
      ++journey.trained;
      journey.nodes.insert(visit.node);
      journey.gain += *visit.gain;
    }
  }
  return journeys;
}

// The last visits of each model that are drawn, kDrawn over all models.
std::span<const ReportVisit> drawn_part(const Journey& journey, std::size_t models) {
  const std::size_t count = std::min(journey.visits.size(), std::max<std::size_t>(kDrawn / models, 2));
  return std::span(journey.visits).last(count);
}

// Maps simulated time and node to the drawing.
struct Frame {
  double begin = 0.0, end = 1.0;
  std::int64_t nodes = 1;  // the highest number
  double x(double time) const { return 1000.0 * (time - begin) / std::max(end - begin, 1e-9); }
  double y(std::int64_t node) const {
    return 1000.0 - 1000.0 * static_cast<double>(node) / static_cast<double>(std::max<std::int64_t>(nodes, 1));
  }
};

Frame frame_of(const std::map<std::int64_t, Journey>& journeys) {
  Frame frame{.begin = 1e300, .end = 0.0};
  for (const auto& [model, journey] : journeys) {
    for (const auto& visit : drawn_part(journey, journeys.size())) {
      frame.begin = std::min(frame.begin, visit.end);
      frame.end = std::max(frame.end, visit.end);
      frame.nodes = std::max(frame.nodes, visit.node);
    }
  }
  return frame;
}

// A line along the nodes, a dot for each visit that is larger the more was gained there, a square for one that was
// lost.
std::string path(std::int64_t model, std::span<const ReportVisit> visits, const Frame& frame) {
  std::string line, marks;
  for (const auto& visit : visits) {
    const double x = frame.x(visit.end), y = frame.y(visit.node);
    if (visit.gain) {
      line += fmt::format("{:.1f},{:.1f} ", x, y);
      marks += fmt::format(
          "<path d=\"M{:.1f} {:.1f}h0\" stroke-width=\"{:.1f}\"><title>model {} at node {}, {:.2f} s: {:+.1f} "
          "points</title></path>",
          x, y, 4.0 + 6.0 * std::max(*visit.gain, 0.0), model, visit.node, visit.end, 100.0 * *visit.gain);
    } else {
      marks += fmt::format("<path class=\"lost\" d=\"M{:.1f} {:.1f}h0\"><title>model {} lost at node {}</title></path>",
                           x, y, model, visit.node);
    }
  }
  return fmt::format("<g stroke=\"var(--s{0})\"><polyline points=\"{1}\"/>{2}</g>\n",
                     static_cast<std::size_t>(model) % kColours, line, marks);
}

std::string drawing(const std::map<std::int64_t, Journey>& journeys) {
  const Frame frame = frame_of(journeys);
  std::string paths;
  for (const auto& [model, journey] : journeys) paths += path(model, drawn_part(journey, journeys.size()), frame);
  const auto seconds = [&](double share) {
    return fmt::format("{:.1f} s", frame.begin + share * (frame.end - frame.begin));
  };
  std::vector<std::string> nodes{fmt::format("node {}", frame.nodes)};
  if (frame.nodes > 3) nodes.push_back(fmt::format("{}", frame.nodes / 2));
  nodes.push_back("0");
  return framed_drawing(paths, "Paths of the models over nodes and simulated time", nodes,
                        {seconds(0.0), "simulated time", seconds(1.0)});
}

// Which colour is which model.
std::string key(const std::map<std::int64_t, Journey>& journeys) {
  std::string entries;
  std::size_t shown = 0;
  for (const auto& [model, journey] : journeys) {
    if (++shown > kMostInKey) break;
    entries += fmt::format("<span>{}model {}</span>", swatch(static_cast<std::size_t>(model) % kColours), model);
  }
  if (journeys.size() > kMostInKey) entries += "<span>…</span>";
  return fmt::format("<p class=\"key\">{}</p>\n", entries);
}

std::string journey_table(const std::map<std::int64_t, Journey>& journeys) {
  std::string rows;
  for (const auto& [model, journey] : journeys) {
    const std::string gain = journey.trained == 0
                                 ? "–"
                                 : fmt::format("{:+.2f}", 100.0 * journey.gain / static_cast<double>(journey.trained));
    rows += fmt::format(
        "<tr><th scope=\"row\"><span class=\"label\">{}<span>model "
        "{}</span></span></th><td>{}</td><td>{}</td><td>{}</td>"
        "<td>{}</td></tr>\n",
        swatch(static_cast<std::size_t>(model) % kColours), model, journey.trained, journey.nodes.size(), journey.lost,
        gain);
  }
  const std::string heads =
      column_head("Visits", "how often the model was trained at a node") +
      column_head("Different nodes", "at how many nodes it was trained") +
      column_head("Lost or refused", "visits to nodes that died, or whose training did not count") +
      column_head("Mean gain, points", "accuracy on the node's own test rows after training there, less that before");
  return fmt::format(
      "<div class=\"table small\"><table>\n<thead><tr><th "
      "scope=\"col\">Model</th>{}</tr></thead>\n<tbody>\n{}</tbody>\n"
      "</table></div>\n",
      heads, rows);
}

}  // namespace

std::string lineage_section(const ReportData& data) {
  std::string runs;
  for (const auto& run : data.runs) {
    const auto journeys = journeys_of(run);
    if (journeys.empty()) continue;
    runs += fmt::format("<details{}><summary>{} <span class=\"mono\">{}</span></summary>\n{}{}</details>\n",
                        runs.empty() ? " open" : "", escape(run.label), escape(run.name),
                        key(journeys) + drawing(journeys), journey_table(journeys));
  }
  if (runs.empty()) return "";
  return fmt::format(
      "\n<section aria-labelledby=\"h-lineage\">\n<h2 id=\"h-lineage\">Lineage of the travelling models</h2>\n"
      "<p class=\"note\">Where each model has been, node by node; a dot is a visit, larger the more was gained there, "
      "a square one that was lost. Gain: accuracy on the node's own test rows after training there, less that before. "
      "At "
      "most the last {} visits of a run are drawn; the tables count all.</p>\n<div class=\"card "
      "configs\">\n{}</div>\n</section>\n",
      kDrawn, runs);
}

}  // namespace parley
