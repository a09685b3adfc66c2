#include "parley/report/groups.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string_view>

namespace parley {
namespace {

using Config = std::map<std::string, std::string>;

std::string_view trim(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// Keys that name the run, or how fast it was computed, and not what it computes.
bool says_nothing_of_the_method(const std::string& key) {
  return key.ends_with("seed") || key == "run.threads" || key == "run.out" || key == "run.label";
}

std::optional<Spread> over_runs(const std::vector<const ReportRun*>& runs,
                                const std::function<std::optional<double>(const ReportRun&)>& measure) {
  std::vector<double> values;
  for (const ReportRun* run : runs) {
    if (const auto value = measure(*run)) values.push_back(*value);
  }
  if (values.empty()) return std::nullopt;
  return spread(values);
}

std::optional<double> sum_of(const ReportRun& run, const std::string& metric) {
  std::optional<double> sum;
  for (const auto& round : run.rounds) {
    if (const auto found = round.values.find(metric); found != round.values.end())
      sum = sum.value_or(0) + found->second;
  }
  return sum;
}

std::vector<const ReportRun*> finished_of(const std::vector<const ReportRun*>& runs) {
  std::vector<const ReportRun*> done;
  std::copy_if(runs.begin(), runs.end(), std::back_inserter(done),
               [](const ReportRun* run) { return run->state == "done"; });
  return done.empty() ? runs : done;
}

// " · client.lr = 0.1" for the keys in which runs of one label differ besides the seed.
std::string distinction(const ReportRun& run, const std::vector<std::string>& keys) {
  const Config config = flatten_config(run.config);
  std::string result;
  for (const auto& key : keys) {
    if (says_nothing_of_the_method(key)) continue;
    const auto found = config.find(key);
    result += (result.empty() ? " · " : ", ") + key + " = " + (found == config.end() ? "(none)" : found->second);
  }
  return result;
}

bool better(const ReportGroup& a, const ReportGroup& b) {
  if (a.settled() != b.settled()) return a.settled();
  const auto a_accuracy = a.last("test_accuracy"), b_accuracy = b.last("test_accuracy");
  if (a_accuracy.has_value() != b_accuracy.has_value()) return a_accuracy.has_value();
  if (a_accuracy) return a_accuracy->mean > b_accuracy->mean;
  const auto a_loss = a.last("test_loss"), b_loss = b.last("test_loss");
  if (a_loss.has_value() != b_loss.has_value()) return a_loss.has_value();
  return a_loss && a_loss->mean < b_loss->mean;
}

}  // namespace

std::optional<Spread> ReportGroup::last(const std::string& metric) const {
  return over_runs(counted, [&](const ReportRun& run) -> std::optional<double> {
    for (auto round = run.rounds.rbegin(); round != run.rounds.rend(); ++round) {
      if (const auto found = round->values.find(metric); found != round->values.end()) return found->second;
    }
    return std::nullopt;
  });
}

std::optional<Spread> ReportGroup::best(const std::string& metric) const {
  return over_runs(counted, [&](const ReportRun& run) {
    std::optional<double> result;
    for (const auto& round : run.rounds) {
      const auto found = round.values.find(metric);
      if (found != round.values.end() && (!result || found->second > *result)) result = found->second;
    }
    return result;
  });
}

std::optional<Spread> ReportGroup::total(const std::string& metric) const {
  return over_runs(counted, [&](const ReportRun& run) { return sum_of(run, metric); });
}

std::optional<Spread> ReportGroup::wall() const {
  // While a run goes on, its run.json says 0.
  return over_runs(counted, [](const ReportRun& run) {
    return run.wall_seconds.value_or(0.0) > 0.0 ? run.wall_seconds : sum_of(run, "seconds");
  });
}

std::size_t ReportGroup::rounds() const {
  std::size_t result = 0;
  for (const ReportRun* run : counted) result = std::max(result, run->rounds.size());
  return result;
}

bool ReportGroup::finished() const {
  return std::all_of(runs.begin(), runs.end(), [](const ReportRun* run) { return run->state == "done"; });
}

bool ReportGroup::settled() const {
  return std::any_of(runs.begin(), runs.end(), [](const ReportRun* run) { return run->state == "done"; });
}

Config flatten_config(const std::string& toml) {
  Config result;
  std::string section;
  for (std::size_t begin = 0; begin < toml.size();) {
    const std::size_t end = std::min(toml.find('\n', begin), toml.size());
    const std::string_view line = trim(std::string_view(toml).substr(begin, end - begin));
    begin = end + 1;
    if (line.empty() || line.front() == '#') continue;
    const auto equals = line.find('=');
    if (line.front() == '[' && equals == std::string_view::npos) {
      section = std::string(trim(line.substr(1, line.find(']') - 1))) + ".";
    } else if (equals != std::string_view::npos) {
      result[section + std::string(trim(line.substr(0, equals)))] = trim(line.substr(equals + 1));
    }
  }
  return result;
}

std::vector<std::string> differing_keys(const std::vector<const ReportRun*>& runs) {
  std::vector<Config> configs;
  std::set<std::string> keys;
  for (const ReportRun* run : runs) {
    if (run->config.empty()) continue;  // nothing known is not a difference
    configs.push_back(flatten_config(run->config));
    for (const auto& [key, value] : configs.back()) keys.insert(key);
  }
  std::vector<std::string> result;
  for (const auto& key : keys) {
    const auto same = [&](const Config& config) {
      const Config& first = configs.front();
      const auto a = config.find(key), b = first.find(key);
      return a == config.end() ? b == first.end() : b != first.end() && a->second == b->second;
    };
    if (!std::all_of(configs.begin(), configs.end(), same)) result.push_back(key);
  }
  return result;
}

std::vector<ReportGroup> group_runs(const ReportData& data) {
  std::map<std::string, std::vector<const ReportRun*>> by_label;
  for (const auto& run : data.runs) by_label[run.label].push_back(&run);

  std::vector<ReportGroup> groups;
  std::map<std::string, std::size_t> index;
  for (const auto& run : data.runs) {
    const auto& alike = by_label[run.label];
    const std::string label = run.label + distinction(run, differing_keys(alike));
    const auto [found, added] = index.try_emplace(label, groups.size());
    if (added) groups.push_back({.label = label});
    groups[found->second].runs.push_back(&run);
  }
  for (auto& group : groups) group.counted = finished_of(group.runs);
  std::stable_sort(groups.begin(), groups.end(), better);
  return groups;
}

}  // namespace parley
