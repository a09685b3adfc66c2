// ReportData -> the page. The tables are plain HTML, so that they are there without JavaScript; what is drawn travels
// as JSON.
#include "parley/report/report.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "parley/base/counted.h"
#include "parley/base/errors.h"
#include "parley/report/classes.h"
#include "parley/report/clients.h"
#include "parley/report/groups.h"
#include "parley/report/html.h"
#include "parley/report/lineage.h"
#include "parley/report/page/page.h"

namespace parley {
namespace {

using Json = nlohmann::json;

// JSON inside a <script> element: '<' stands only in strings there, and must not begin "</script" or "<!--".
std::string script_json(const Json& json) {
  const std::string text = json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  std::string result;
  for (const char c : text) {
    if (c == '<') {
      result += "\\u003c";
    } else {
      result += c;
    }
  }
  return result;
}

// Puts each {{name}} of the template in, once: what is put in is not looked at again.
std::string fill(std::string_view page, const std::map<std::string, std::string, std::less<>>& parts) {
  std::string result;
  while (true) {
    const auto open = page.find("{{");
    result += page.substr(0, open);
    if (open == std::string_view::npos) return result;
    const auto close = page.find("}}", open);
    const auto part = parts.find(page.substr(open + 2, close - open - 2));
    assert(close != std::string_view::npos && part != parts.end() && "a part of the page has no content");
    result += part->second;
    page.remove_prefix(close + 2);
  }
}

std::string grouped(double value) {
  std::string digits = fmt::format("{:.0f}", value);
  const std::size_t first = digits.starts_with('-') ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string percent(double value) {
  return fmt::format("{:.2f}", 100 * value);
}
std::string loss(double value) {
  return std::abs(value) < 1e6 && (value == 0 || std::abs(value) >= 1e-4) ? fmt::format("{:.4f}", value)
                                                                          : fmt::format("{:.2e}", value);
}
// Three digits, or all of a whole number: "0.12", "12.3", "1,234".
std::string amount(double value) {
  if (value >= 99.95) return grouped(value);
  return value >= 9.995 ? fmt::format("{:.1f}", value) : fmt::format("{:.2f}", value);
}
std::string megabytes(double value) {
  return amount(value / 1e6);
}

using Format = std::string (*)(double);

// Without the deviation where there can be none: one run, or bytes that every seed sends alike.
std::string cell_text(const Spread& value, Format format) {
  if (value.count < 2 || value.deviation <= 1e-9 * std::abs(value.mean)) return format(value.mean);
  return fmt::format("{} <span class=\"sd\">± {}</span>", format(value.mean), format(value.deviation));
}

// "done", "running, 12 of 20 rounds".
std::string state_text(const ReportRun& run) {
  if (run.state == "done" || !run.planned_rounds) return run.state;
  return fmt::format("{}, {} of {}", run.state, run.rounds.size(), counted(*run.planned_rounds, "round"));
}

std::string state_badge(const ReportRun& run) {
  return fmt::format("<span class=\"state{}\">{}</span>", run.state == "done" ? " done" : "", escape(state_text(run)));
}

// Whether the means of two groups of seeds differ by no more than chance makes likely: Welch's test at 5 %, whose bound
// is wide where seeds are few.
bool level(const Spread& a, const Spread& b) {
  constexpr double kBounds[] = {12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23};  // of Student's t
  if (a.count < 2 || b.count < 2) return false;
  const auto part = [](const Spread& s) { return s.deviation * s.deviation / static_cast<double>(s.count); };
  const auto freed = [&](const Spread& s) { return part(s) * part(s) / static_cast<double>(s.count - 1); };
  const double variance = part(a) + part(b);
  if (variance == 0.0) return a.mean == b.mean;
  const auto freedom = static_cast<std::size_t>(variance * variance / (freed(a) + freed(b)));
  const double bound = freedom > std::size(kBounds) ? 2.0 : kBounds[std::max<std::size_t>(freedom, 1) - 1];
  return std::abs(a.mean - b.mean) <= bound * std::sqrt(variance);
}

// ---- result table ---------------------------------------------------------------------------------------------------

struct Column {
  std::string head;
  std::function<std::optional<Spread>(const ReportGroup&)> measure;
  Format format;
  int best;  // +1: the greatest is marked; -1: the least; 0: none
  std::string meaning;
};

std::vector<Column> result_columns(const std::vector<ReportGroup>& groups) {
  const auto last = [](const char* metric) { return [=](const ReportGroup& group) { return group.last(metric); }; };
  const auto total = [](const char* metric) { return [=](const ReportGroup& group) { return group.total(metric); }; };
  std::vector<Column> columns = {
      {"Final accuracy, %", last("test_accuracy"), percent, +1,
       "share of the test examples that the model of the last round tells right"},
      {"Best accuracy, %", [](const ReportGroup& group) { return group.best("test_accuracy"); }, percent, +1,
       "the highest test accuracy of any round: chosen on test data, so a little flattering"},
      {"Final R²", last("test_r2"), loss, +1,
       "share of the test targets' variance that the model explains; 0 is no better than their mean"},
      {"RMSE", last("test_rmse"), amount, -1, "root of the mean squared error, in the target's own units"},
      {"MAE", last("test_mae"), amount, -1, "mean size of an error, in the target's own units"},
      {"Final loss", last("test_loss"), loss, -1,
       "mean loss on the test examples: the lower, the better, and it counts how sure the model was"},
      {"MB up", total("bytes_up"), megabytes, 0, "megabytes that all clients sent in all rounds, as encoded"},
      {"MB down", total("bytes_down"), megabytes, 0, "megabytes that were sent to clients in all rounds, as encoded"},
      {"Seconds", [](const ReportGroup& group) { return group.wall(); }, amount, 0,
       "wall-clock seconds of the whole run on the machine named below"},
  };
  std::erase_if(columns, [&](const Column& column) {
    return std::none_of(groups.begin(), groups.end(), [&](const auto& group) { return column.measure(group); });
  });
  return columns;
}

// Cells whose text equals the best one's are marked with it, and those that its seeds do not tell from it: a tie is a
// tie. Numbers that may still change compete only with each other.
std::vector<std::string> column_cells(const Column& column, const std::vector<ReportGroup>& groups) {
  const bool final = groups.front().settled();
  std::optional<Spread> best;
  for (const auto& group : groups) {
    const auto value = group.settled() == final ? column.measure(group) : std::nullopt;
    if (value && (!best || column.best * value->mean > column.best * best->mean)) best = value;
  }
  std::vector<std::string> cells;
  for (const auto& group : groups) {
    const auto value = column.measure(group);
    const bool marked = value && best && column.best != 0 && groups.size() > 1 && group.settled() == final &&
                        (column.format(value->mean) == column.format(best->mean) || level(*value, *best));
    cells.push_back(
        fmt::format("<td{}>{}</td>", marked ? " class=\"best\"" : "", value ? cell_text(*value, column.format) : "–"));
  }
  return cells;
}

std::string seeds_text(const ReportGroup& group) {
  if (group.finished() || group.runs.size() == 1) return fmt::format("{}", group.runs.size());
  const auto done = std::count_if(group.runs.begin(), group.runs.end(), [](auto* run) { return run->state == "done"; });
  return fmt::format("{} of {} done", done, group.runs.size());
}

std::string result_table(const std::vector<ReportGroup>& groups) {
  const auto columns = result_columns(groups);
  std::string head = "<th scope=\"col\">Method</th>", body;
  std::vector<std::vector<std::string>> cells;
  for (const auto& column : columns) {
    head += column_head(column.head, column.meaning);
    cells.push_back(column_cells(column, groups));
  }
  head += column_head("Rounds", "rounds that are finished; of the run that came furthest");
  head += column_head("Runs", "runs that differ in nothing but their seed");
  bool several = false, partial = false;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    body += fmt::format("<tr><th scope=\"row\"><span class=\"label\">{}<span>{}</span>{}</span></th>", swatch(g),
                        escape(groups[g].label),
                        groups[g].runs.size() == 1 && !groups[g].finished() ? state_badge(*groups[g].runs[0]) : "");
    for (const auto& column : cells) body += column[g];
    body += fmt::format("<td>{}</td><td>{}</td></tr>\n", groups[g].rounds(), seeds_text(groups[g]));
    several |= groups[g].counted.size() > 1;
    partial |= groups[g].counted.size() < groups[g].runs.size();
  }
  std::string result = fmt::format(
      "<div class=\"table result\"><table>\n<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody>\n</table></div>\n", head,
      body);
  std::string note;
  if (several)
    note += "Mean ± standard deviation over seeds; marked are the best and what the seeds do not tell from it. ";
  if (partial) note += "Where some seeds are unfinished, the numbers are those of the finished ones. ";
  if (!note.empty()) result += fmt::format("<p class=\"note\">{}</p>\n", note);
  return result;
}

// ---- uncertainty ----------------------------------------------------------------------------------------------------

// A number that the model and the networks drawn from its posterior both have.
struct Pair {
  const char* head;
  const char* point;
  const char* posterior;
  Format format;
  int best;  // +1: the greater is marked; -1: the less
  const char* meaning;
};
constexpr Pair kPairs[] = {
    {"Loss", "test_loss", "posterior_loss", loss, -1,
     "mean negative logarithm of the probability given to the true class of a test example"},
    {"Accuracy, %", "test_accuracy", "posterior_accuracy", percent, +1,
     "share of the test examples whose likeliest class is the true one"},
    {"Calibration error", "test_ece", "posterior_ece", loss, -1,
     "by how much confidence and accuracy differ, on average over 15 bins of confidence (ECE); 0 is perfect"},
    {"Brier score", "test_brier", "posterior_brier", loss, -1,
     "mean squared distance of the probabilities from the truth; 0 is perfect, 2 the worst"},
    {"Other data, AUROC", "ood_auroc", "posterior_ood_auroc", loss, +1,
     "chance that an example of other data is doubted more than one of the test set; 0.5 is guessing"}};

// The cells of the two rows of a group in one column; the better one is marked, unless they read the same.
std::pair<std::string, std::string> pair_cells(const ReportGroup& group, const Pair& pair) {
  const auto point = group.last(pair.point), posterior = group.last(pair.posterior);
  const bool differ = point && posterior && pair.format(point->mean) != pair.format(posterior->mean);
  const bool sampling_wins = differ && pair.best * (posterior->mean - point->mean) > 0;
  const auto cell = [&](const std::optional<Spread>& value, bool marked) {
    return fmt::format("<td{}>{}</td>", marked ? " class=\"best\"" : "", value ? cell_text(*value, pair.format) : "–");
  };
  return {cell(point, differ && !sampling_wins), cell(posterior, sampling_wins)};
}

// Those that some group has.
std::vector<Pair> measured_pairs(const std::vector<ReportGroup>& groups) {
  std::vector<Pair> result;
  std::ranges::copy_if(kPairs, std::back_inserter(result), [&](const Pair& pair) {
    return std::ranges::any_of(groups, [&](const ReportGroup& group) { return group.last(pair.point).has_value(); });
  });
  return result;
}

std::string uncertainty_section(const std::vector<ReportGroup>& groups) {
  const std::vector<Pair> pairs = measured_pairs(groups);
  std::string head, body;
  for (const auto& pair : pairs) head += column_head(pair.head, pair.meaning);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const bool sampled = groups[g].last("posterior_loss").has_value();
    if (!sampled && !groups[g].last("ood_auroc")) continue;
    std::string point, posterior;
    for (const auto& pair : pairs) {
      const auto [first, second] = pair_cells(groups[g], pair);
      point += first;
      posterior += second;
    }
    body += fmt::format(
        "<tr><th scope=\"row\"><span class=\"label\">{}<span>{}</span></span></th><td "
        "class=\"text\">model</td>{}</tr>\n",
        swatch(g), escape(groups[g].label), point);
    if (sampled) body += fmt::format("<tr><th></th><td class=\"text\">posterior</td>{}</tr>\n", posterior);
  }
  if (body.empty()) return "";
  return fmt::format(
      "\n<section aria-labelledby=\"h-uncertainty\">\n<h2 id=\"h-uncertainty\">Uncertainty</h2>\n"
      "<p class=\"note\">The model by itself, and the mean prediction of networks drawn from its posterior, after the "
      "last round. AUROC: the chance that the model doubts an example of other data more than one of the test set; 0.5 "
      "is guessing.</p>\n<div class=\"table result\"><table>\n<thead><tr><th scope=\"col\">Method</th>"
      "<th class=\"text\" scope=\"col\">Prediction</th>{}</tr></thead>\n<tbody>\n{}</tbody>\n</table></div>\n"
      "<div id=\"uncertainty-charts\" class=\"charts\"></div>\n</section>\n",
      head, body);
}

// ---- what the head of the page says ---------------------------------------------------------------------------------

// The different values of a text among the runs, in order; empty ones left out.
std::vector<std::string> distinct(const ReportData& data, std::string ReportRun::*member) {
  std::vector<std::string> result;
  for (const auto& run : data.runs) {
    const auto& value = run.*member;
    if (!value.empty() && std::find(result.begin(), result.end(), value) == result.end()) result.push_back(value);
  }
  return result;
}

std::string one_or_count(const std::vector<std::string>& values, const char* plural) {
  if (values.empty()) return "";
  return values.size() == 1 ? values[0] : fmt::format("{} {}", values.size(), plural);
}

std::string title_text(const ReportData& data, const std::vector<ReportGroup>& groups) {
  std::string who;
  if (groups.size() <= 4) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (g > 0) who += g + 1 == groups.size() ? " and " : ", ";
      who += groups[g].label;
    }
  }
  if (who.empty() || who.size() > 90) {
    const auto methods = distinct(data, &ReportRun::method).size();
    who = fmt::format("{} {}", groups.size(), methods == groups.size() ? "methods" : "settings");
  }
  const std::string on = one_or_count(distinct(data, &ReportRun::data), "data sets");
  return on.empty() ? who : who + " on " + on;
}

std::string setting_text(const ReportData& data) {
  std::string result;
  const auto add = [&](const std::string& text) {
    if (!text.empty()) result += (result.empty() ? "" : " · ") + text;
  };
  add(one_or_count(distinct(data, &ReportRun::partition), "partitions"));
  add(one_or_count(distinct(data, &ReportRun::model), "models"));
  std::set<std::int64_t> parameters;
  for (const auto& run : data.runs) {
    if (run.parameters) parameters.insert(*run.parameters);
  }
  if (parameters.size() == 1) add(grouped(static_cast<double>(*parameters.begin())) + " parameters");
  add(counted(data.runs.size(), "run"));
  return result;
}

// "fola, fedavg and 3 others".
std::string enumerated(const std::vector<std::string>& names) {
  constexpr std::size_t kNamed = 3;
  std::string text = names.front();
  for (std::size_t i = 1; i < std::min(kNamed, names.size()); ++i) {
    text += (i + 1 == names.size() ? " and " : ", ") + names[i];
  }
  if (names.size() > kNamed) text += fmt::format(" and {}", counted(names.size() - kNamed, "other"));
  return text;
}

// The groups, first among them the best, whose metric the seeds do not tell from the best one's.
std::vector<std::string> level_with_first(const std::vector<ReportGroup>& groups, const char* metric) {
  std::vector<std::string> labels{groups[0].label};
  const auto top = groups[0].last(metric);
  for (std::size_t g = 1; g < groups.size(); ++g) {
    const auto value = groups[g].last(metric);
    if (groups[g].settled() == groups[0].settled() && value && level(*top, *value)) labels.push_back(groups[g].label);
  }
  return labels;
}

// "fola ends highest, at 81.24 % test accuracy after 20 rounds; fedavg follows with 73.10 %."
std::string finding_text(const std::vector<ReportGroup>& groups) {
  const auto first = groups[0].last("test_accuracy");
  const bool by_accuracy = first.has_value();
  const char* const metric = by_accuracy ? "test_accuracy" : "test_loss";
  const auto top = groups[0].last(metric);
  if (!top) return "No round has been finished yet.";
  const auto shown = [&](double value) { return by_accuracy ? percent(value) + " %" : loss(value); };
  const std::string what = by_accuracy ? "test accuracy" : "test loss";
  const std::string rounds = counted(groups[0].rounds(), "round");
  std::string result;
  const auto next = groups.size() < 2 ? std::nullopt : groups[1].last(metric);
  const auto alike = level_with_first(groups, metric);
  if (!next) {
    result = fmt::format("{}: {} of {} after {}.", groups[0].label, what, shown(top->mean), rounds);
  } else if (alike.size() > 1) {
    result = fmt::format("{} are level after {}: {} each do not tell them apart (the first has a {} of {} ± {}).",
                         enumerated(alike), rounds, counted(top->count, "seed"), what, shown(top->mean),
                         shown(top->deviation));
  } else {
    const std::string first_value = shown(top->mean), second = shown(next->mean);
    result = fmt::format(
        "{} ends {}, with a {} of {} after {}; {}.", groups[0].label, by_accuracy ? "highest" : "lowest", what,
        first_value, rounds,
        first_value == second ? groups[1].label + " is level with it" : groups[1].label + " follows with " + second);
  }
  if (next && top->count < 2) result += " One seed each: a small lead may be chance.";
  std::size_t open = 0;
  for (const auto& group : groups) {
    for (const auto* run : group.runs) open += run->state != "done";
  }
  if (open > 0) result += fmt::format(" {} not finished.", counted(open, "run is", "runs are"));
  return result;
}

std::string footer_text(const ReportData& data) {
  std::vector<std::string> parts;
  if (const auto version = one_or_count(distinct(data, &ReportRun::version), "versions"); !version.empty()) {
    parts.push_back("Parley " + version);
  }
  std::set<std::string> machines;
  for (const auto& run : data.runs) {
    if (run.cpu.empty()) continue;
    std::string machine = run.cpu;
    if (run.cores) machine += fmt::format(", {}", counted(*run.cores, "core"));
    if (run.threads) machine += fmt::format(", {}", counted(*run.threads, "thread"));
    machines.insert(machine);
  }
  parts.insert(parts.end(), machines.begin(), machines.end());
  double seconds = 0.0;
  for (const auto& run : data.runs) seconds += run.wall_seconds.value_or(0.0);
  if (seconds > 0) parts.push_back(fmt::format("{} s of training in all", amount(seconds)));
  std::string result;
  for (const auto& part : parts) result += (result.empty() ? "" : " · ") + part;
  return result.empty() ? "Parley" : result;
}

// ---- runs and settings ----------------------------------------------------------------------------------------------

std::string runs_table(const std::vector<const ReportRun*>& runs, const std::vector<std::string>& keys) {
  std::string head = "<th scope=\"col\">Run</th><th class=\"text\" scope=\"col\">State</th>";
  for (const auto& key : keys) head += fmt::format("<th class=\"text mono\" scope=\"col\">{}</th>", escape(key));
  std::string body;
  for (const ReportRun* run : runs) {
    body += fmt::format("<tr><th class=\"mono\" scope=\"row\">{}</th><td class=\"text\">{}</td>", escape(run->name),
                        state_badge(*run));
    const auto config = flatten_config(run->config);
    for (const auto& key : keys) {
      const auto found = config.find(key);
      body += fmt::format("<td class=\"text mono\">{}</td>", found == config.end() ? "–" : escape(found->second));
    }
    body += "</tr>\n";
  }
  return fmt::format(
      "<div class=\"table small\"><table>\n<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody>\n</table></div>\n", head,
      body);
}

// The config with the lines that differ between the runs marked.
std::string marked_config(const ReportRun& run, const std::vector<std::string>& keys) {
  std::string result, section;
  for (std::size_t begin = 0; begin < run.config.size();) {
    const std::size_t end = std::min(run.config.find('\n', begin), run.config.size());
    const std::string line = run.config.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with('[')) section = line + "\n";
    const auto one = flatten_config(section + line);
    const bool differs = !one.empty() && std::find(keys.begin(), keys.end(), one.begin()->first) != keys.end();
    result += (differs ? "<mark>" + escape(line) + "</mark>" : escape(line)) + "\n";
  }
  return result;
}

std::string runs_section(const ReportData& data) {
  std::vector<const ReportRun*> runs;
  for (const auto& run : data.runs) runs.push_back(&run);
  const auto keys = differing_keys(runs);
  std::string result;
  if (!keys.empty())
    result += "<p class=\"note\">The settings in which the runs differ; all others are the same.</p>\n";
  result += runs_table(runs, keys);
  std::string configs;
  for (const ReportRun* run : runs) {
    if (run->config.empty()) continue;
    configs +=
        fmt::format("<details><summary>{}<span class=\"mono\">{}/config.toml</span></summary><pre>{}</pre></details>\n",
                    escape(run->label), escape(run->name), marked_config(*run, keys));
  }
  if (!configs.empty()) result += fmt::format("<div class=\"card configs\">\n{}</div>\n", configs);
  return result;
}

// Empty when no update was refused.
std::string refused_section(const ReportData& data) {
  constexpr std::size_t kShown = 50;
  std::string rows;
  std::size_t count = 0;
  for (const auto& run : data.runs) {
    for (const auto& round : run.rounds) {
      if (round.refused.empty() || ++count > kShown) continue;
      std::string names;
      for (const auto& name : round.refused) names += (names.empty() ? "" : ", ") + name;
      rows += fmt::format("<tr><th class=\"mono\" scope=\"row\">{}</th><td>{}</td><td class=\"text\">{}</td></tr>\n",
                          escape(run.name), round.round, escape(names));
    }
  }
  if (count == 0) return "";
  const std::string rest = count > kShown ? fmt::format(" The first {} of {} rounds are shown.", kShown, count) : "";
  return fmt::format(
      "\n<section aria-labelledby=\"h-refused\">\n<h2 id=\"h-refused\">Refused updates</h2>\n"
      "<p class=\"note\">These clients' updates were not finite or did not fit; the round went on without them.{}</p>\n"
      "<div class=\"table small\"><table>\n<thead><tr><th scope=\"col\">Run</th><th scope=\"col\">Round</th>"
      "<th class=\"text\" scope=\"col\">Clients</th></tr></thead>\n<tbody>\n{}</tbody>\n</table></div>\n</section>\n",
      rest, rows);
}

// ---- what is drawn --------------------------------------------------------------------------------------------------

// Seven digits are more than a chart can show, and keep the page small.
double rounded(double value) {
  double result = value;
  const std::string text = fmt::format("{:.7g}", value);
  std::from_chars(text.data(), text.data() + text.size(), result);
  return result;
}

// {"round": [1, 2, …], "metrics": {"test_loss": [0.7, null, …], …}, …}; a value that is not finite becomes null.
Json run_json(const ReportRun& run, std::size_t group, bool counts) {
  std::set<std::string> keys;
  for (const auto& round : run.rounds) {
    for (const auto& [key, value] : round.values) keys.insert(key);
  }
  Json rounds = Json::array(), metrics = Json::object();
  for (const auto& round : run.rounds) rounds.push_back(round.round);
  for (const auto& key : keys) {
    Json& column = metrics[key] = Json::array();
    for (const auto& round : run.rounds) {
      const auto found = round.values.find(key);
      const bool measured = found != round.values.end() && std::isfinite(found->second);
      column.push_back(measured ? Json(rounded(found->second)) : Json());
    }
  }
  return {{"name", run.name}, {"group", group}, {"counted", counts}, {"round", rounds}, {"metrics", metrics}};
}

// "seed 1" when only runs with that seed have this split, else their folders' names.
std::string split_name(const std::vector<const ReportRun*>& users) {
  const auto& first = *users.front();
  if (first.seed && std::all_of(users.begin(), users.end(), [&](auto* run) { return run->seed == first.seed; })) {
    return fmt::format("seed {}", *first.seed);
  }
  return users.size() == 1 ? first.name : fmt::format("{} and {} more", first.name, users.size() - 1);
}

// The different splits, each named by the runs that used it.
Json splits_json(const ReportData& data) {
  std::vector<std::vector<const ReportRun*>> users;
  std::map<std::vector<std::vector<std::int64_t>>, std::size_t> known;
  for (const auto& run : data.runs) {
    if (run.label_histogram.empty()) continue;
    const auto [found, added] = known.try_emplace(run.label_histogram, users.size());
    if (added) users.emplace_back();
    users[found->second].push_back(&run);
  }
  std::set<std::string> taken;
  Json splits = Json::array();
  for (const auto& runs : users) {
    std::string name = split_name(runs);
    if (!taken.insert(name).second) name += ", " + runs.front()->name;
    const ReportRun& first = *runs.front();
    splits.push_back(
        {{"name", name},
         {"rows", first.label_histogram},
         {"clients", std::max(first.client_count, static_cast<std::int64_t>(first.label_histogram.size()))},
         {"classes", first.class_names}});
  }
  return splits;
}

Json drawn(const ReportData& data, const std::vector<ReportGroup>& groups) {
  Json labels = Json::array(), runs = Json::array();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    labels.push_back(groups[g].label);
    for (const ReportRun* run : groups[g].runs) {
      const auto& numbers = groups[g].counted;
      runs.push_back(run_json(*run, g, std::find(numbers.begin(), numbers.end(), run) != numbers.end()));
    }
  }
  return {{"groups", labels}, {"runs", runs}, {"splits", splits_json(data)}};
}

}  // namespace

std::string render_report(const ReportData& data) {
  assert(!data.runs.empty());
  const auto groups = group_runs(data);
  const std::map<std::string, std::string, std::less<>> parts = {
      {"version", escape(one_or_count(distinct(data, &ReportRun::version), "versions"))},
      {"name", escape(data.name)},
      {"title", escape(title_text(data, groups))},
      {"setting", escape(setting_text(data))},
      {"finding", escape(finding_text(groups))},
      {"result", result_table(groups)},
      {"uncertainty", uncertainty_section(groups)},
      {"classes", classes_section(groups)},
      {"clients", clients_section(groups)},
      {"lineage", lineage_section(data)},
      {"refused", refused_section(data)},
      {"runs", runs_section(data)},
      {"footer", escape(footer_text(data))},
      {"data", script_json(drawn(data, groups))},
      {"css", std::string(report_page::css)},
      {"js", std::string(report_page::js)},
  };
  return fill(report_page::html, parts);
}

}  // namespace parley
