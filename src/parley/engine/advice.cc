#include "parley/engine/advice.h"

#include <algorithm>
#include <cmath>

#include "parley/base/counted.h"

namespace parley {
namespace {

// Half the L1 distance between the classes of a client and those of all, averaged over the examples: 0 when all clients
// are alike.
double label_skew(const Federated& federated) {
  const Dataset& train = *federated.data.train;
  if (train.classes == 0) return 0.0;
  const RowLists& clients = federated.partition.clients;
  std::vector<double> total(train.classes);
  for (const auto rows : clients) {
    for (const auto row : rows) total[static_cast<std::size_t>(train.labels[row])] += 1.0;
  }
  const auto examples = static_cast<double>(clients.rows());
  double skew = 0.0;
  for (const auto rows : clients) {
    if (rows.empty()) continue;
    const auto size = static_cast<double>(rows.size());
    const auto counts = label_counts(train, rows);
    double distance = 0.0;
    for (std::size_t c = 0; c < counts.size(); ++c) {
      distance += std::abs(static_cast<double>(counts[c]) / size - total[c] / examples) / 2.0;
    }
    skew += distance * size / examples;
  }
  return skew;
}

bool measures_statistics(const Layout& layout) {
  return std::ranges::any_of(layout.entries(), [](const auto& e) { return e.role == Role::running_var; });
}

// A label column that is the same everywhere trains to 100 % in no time, and says nothing.
void about_labels(const Experiment& experiment, std::vector<std::string>& lines) {
  const Dataset& train = *experiment.federated.data.train;
  const auto& labels = train.labels;
  if (train.classes == 0 || labels.empty()) return;
  if (std::ranges::any_of(labels, [&](std::int32_t label) { return label != labels.front(); })) return;
  lines.emplace_back(
      "every training example has the same label, so there is nothing to learn; check data.label (docs/data.md)");
}

void about_norms(const Experiment& experiment, std::vector<std::string>& lines) {
  constexpr double kSkewed = 0.3;  // beyond what random clients of twenty examples and ten classes show
  const Settings& settings = experiment.settings;
  const bool plain = settings.aggregate.text("running_var") == "mean" && settings.method.text("name") != "central";
  if (!plain || !measures_statistics(*experiment.layout) || label_skew(experiment.federated) < kSkewed) return;
  lines.emplace_back(
      "batch norm measures each client's own classes, and these differ much between clients: averaged statistics fit "
      "nobody; try model.norm = \"group\", or [aggregate] running_var = \"mixture\" (docs/methods.md)");
}

void about_own_tests(const Experiment& experiment, std::vector<std::string>& lines) {
  if (!experiment.settings.evaluate.flag("clients")) return;
  const Federated& federated = experiment.federated;
  std::size_t without = 0, clients = 0;
  for (std::size_t client = 0; client < federated.partition.clients.size(); ++client) {
    if (federated.partition.clients[client].empty()) continue;
    ++clients;
    without += federated.own_test_view(client).size() == 0;
  }
  if (without == 0) return;
  lines.push_back(
      fmt::format("{} of {} no test examples of their own and are missing from the per-client results; "
                  "raise partition.holdout (docs/experiment-files.md)",
                  without, counted(clients, "client has", "clients have")));
}

void about_divergence(const std::vector<Json>& metrics, std::vector<std::string>& lines) {
  const auto mostly_refused = [](const Json& line) {
    return line.contains("refused") && line["refused"].size() > line.value("clients", 0u);
  };
  const auto worst = std::ranges::find_if(metrics, mostly_refused);
  if (worst == metrics.end()) return;
  lines.push_back(fmt::format(
      "in round {}, {} of {} refused ({}); lower client.lr", worst->value("round", 0u), (*worst)["refused"].size(),
      counted((*worst)["refused"].size() + worst->value("clients", 0u), "update was", "updates were"),
      (*worst)["refused"][0].get<std::string>()));
}

void about_posterior(const Json& last, std::vector<std::string>& lines) {
  constexpr double kFar = 0.1;  // of accuracy
  const double drawn = last.value("posterior_accuracy", 1.0), mean = last.value("test_accuracy", 0.0);
  if (mean - drawn < kFar) return;
  lines.push_back(fmt::format(
      "networks drawn from the posterior reach {:.1f} %, its mean {:.1f} %: it is too wide to be used; lower "
      "evaluate.posterior_scale or raise evaluate.prior_precision (docs/methods.md)",
      100.0 * drawn, 100.0 * mean));
}

}  // namespace

std::vector<std::string> advice(const Experiment& experiment) {
  std::vector<std::string> lines;
  about_labels(experiment, lines);
  about_norms(experiment, lines);
  about_own_tests(experiment, lines);
  return lines;
}

std::vector<std::string> advice(const std::vector<Json>& metrics) {
  std::vector<std::string> lines;
  about_divergence(metrics, lines);
  if (!metrics.empty()) about_posterior(metrics.back(), lines);
  return lines;
}

}  // namespace parley
