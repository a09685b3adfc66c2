#include "parley/engine/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "parley/base/assignment.h"

namespace parley {
namespace {

// A client's inferred and true class distribution.
struct Distributions {
  std::span<const float> inferred;
  std::vector<double> truth;
};

std::vector<Distributions> known_of(std::span<const float> inferred,
                                    const std::vector<std::vector<std::size_t>>& counts) {
  std::vector<Distributions> known;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    const std::size_t classes = counts[k].size();
    const auto row = inferred.subspan(k * classes, classes);
    const auto total = static_cast<double>(std::accumulate(counts[k].begin(), counts[k].end(), std::size_t{0}));
    const bool was_inferred = std::ranges::any_of(row, [](float share) { return share > 0.0f; });
    if (total == 0.0 || !was_inferred) continue;
    Distributions& client = known.emplace_back(row);
    for (const std::size_t count : counts[k]) client.truth.push_back(static_cast<double>(count) / total);
  }
  return known;
}

}  // namespace

std::optional<double> class_distribution_error(std::span<const float> inferred,
                                               const std::vector<std::vector<std::size_t>>& counts) {
  const auto known = known_of(inferred, counts);
  if (known.empty()) return {};
  const std::size_t classes = counts.front().size();
  std::vector<double> cost(classes * classes, 0.0);  // of taking latent class i for true class j
  for (const auto& client : known) {
    for (std::size_t i = 0; i < classes; ++i) {
      for (std::size_t j = 0; j < classes; ++j) {
        cost[i * classes + j] += 0.5 * std::abs(client.inferred[i] - client.truth[j]);
      }
    }
  }
  const auto taken_for = assign(cost, classes, classes);
  double total = 0.0;
  for (std::size_t i = 0; i < classes; ++i) total += cost[i * classes + taken_for[i]];
  return total / static_cast<double>(known.size());
}

double running_kl(const Layout& layout, std::span<const float> theta, std::span<const float> reference) {
  constexpr double kEpsilon = 1e-5;
  double sum = 0.0;
  std::size_t channels = 0;
  for (const auto& [mean, var] : running_pairs(layout)) {
    for (std::size_t i = 0; i < mean.size; ++i) {
      const double distance = double{mean.of(theta)[i]} - mean.of(reference)[i];
      const double ours = var.of(theta)[i] + kEpsilon, theirs = var.of(reference)[i] + kEpsilon;
      sum += 0.5 * ((ours + distance * distance) / theirs - 1.0 + std::log(theirs / ours));
    }
    channels += mean.size;
  }
  return sum / static_cast<double>(channels);
}

std::map<std::string, double> compare_statistics(const Experiment& experiment, const State& state) {
  std::map<std::string, double> metrics;
  if (!experiment.reference.empty()) {
    metrics["bn_kl"] = running_kl(*experiment.layout, state.at("theta"), experiment.reference);
  }
  const Federated& federated = experiment.federated;
  const std::size_t classes = federated.data.train->classes;
  const std::string channel = experiment.method->class_distribution();
  if (classes > 0 && !channel.empty() && state.at(channel).size() == experiment.clients() * classes) {
    const auto counts = label_histogram(*federated.data.train, federated.partition);
    if (const auto error = class_distribution_error(state.at(channel), counts)) {
      metrics["class_distribution_error"] = *error;
    }
  }
  return metrics;
}

}  // namespace parley
