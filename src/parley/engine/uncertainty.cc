#include "parley/engine/uncertainty.h"

#include "parley/engine/scores.h"

namespace parley {
namespace {

PosteriorDraw posterior_draw(const Experiment& experiment) {
  return {.examples = static_cast<double>(experiment.federated.partition.examples()),
          .scale = experiment.settings.evaluate.real("posterior_scale"),
          .prior_precision = experiment.settings.evaluate.real("prior_precision")};
}

}  // namespace

std::map<std::string, double> measure_uncertainty(const Experiment& experiment, Federation& federation,
                                                  std::size_t round) {
  std::map<std::string, double> metrics;
  const Dataset& test = *experiment.federated.data.test;
  const Dataset* ood = experiment.ood.get();
  if (ood != nullptr) {
    metrics["ood_auroc"] = auroc(doubts(federation.predict(*ood)), doubts(federation.predict(test)));
  }
  const auto samples = static_cast<std::size_t>(experiment.settings.evaluate.integer("posterior_samples"));
  if (samples == 0) return metrics;
  const PosteriorDraw how = posterior_draw(experiment);
  std::vector<const Dataset*> sets{&test};
  if (ood != nullptr) sets.push_back(ood);
  const auto means = federation.predict(sets, round, samples, how);
  for (const auto& [name, value] : scores("posterior", evaluate(means[0], WholeView(test).view()))) {
    metrics[name] = value;
  }
  if (ood != nullptr) metrics["posterior_ood_auroc"] = auroc(doubts(means[1]), doubts(means[0]));
  return metrics;
}

}  // namespace parley
