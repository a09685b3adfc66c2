// Which runs of a report belong together, and what they come to.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "parley/base/spread.h"
#include "parley/report/report.h"

namespace parley {

// Runs that differ in nothing but their seed.
struct ReportGroup {
  std::string label;
  std::vector<const ReportRun*> runs;
  // The runs that the numbers are taken from: the finished ones, or all of them while none has finished.
  std::vector<const ReportRun*> counted;

  std::optional<Spread> last(const std::string& metric) const;   // in the last round that has it
  std::optional<Spread> best(const std::string& metric) const;   // its greatest value in any round
  std::optional<Spread> total(const std::string& metric) const;  // summed over the rounds
  std::optional<Spread> wall() const;                            // wall seconds, or the rounds' seconds
  std::size_t rounds() const;                                    // of the run that came furthest
  bool finished() const;                                         // all of its runs
  bool settled() const;                                          // some of its runs, so that its numbers are final
};

// "section.key" -> value as TOML writes it, of a resolved config (one key a line).
std::map<std::string, std::string> flatten_config(const std::string& toml);

// The keys whose values are not the same in all of these runs.
std::vector<std::string> differing_keys(const std::vector<const ReportRun*>& runs);

// Groups by label, best first: the settled before the others, then by final accuracy, without one by final loss. Runs
// of one label whose configs differ in more than seeds are told apart by what differs: "fedavg · client.lr = 0.1".
std::vector<ReportGroup> group_runs(const ReportData& data);

}  // namespace parley
