// The numbers of an evaluation under their names in the metrics.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "parley/model/evaluation.h"

namespace parley {

// "prefix_loss" and, for classes, "prefix_accuracy", "prefix_ece", "prefix_brier", "prefix_coverage" and
// "prefix_set_size"; for regressions "prefix_rmse", "prefix_mae" and, where the targets vary, "prefix_r2".
inline std::vector<std::pair<std::string, double>> scores(const std::string& prefix, const Evaluation& evaluation) {
  std::vector<std::pair<std::string, double>> named{{prefix + "_loss", evaluation.loss()}};
  if (evaluation.classified()) {
    named.insert(named.end(), {{prefix + "_accuracy", evaluation.accuracy()},
                               {prefix + "_ece", evaluation.ece()},
                               {prefix + "_brier", evaluation.brier()},
                               {prefix + "_coverage", evaluation.coverage()},
                               {prefix + "_set_size", evaluation.set_size()}});
  }
  if (!evaluation.targets.empty()) {
    named.insert(named.end(), {{prefix + "_rmse", evaluation.rmse()}, {prefix + "_mae", evaluation.mae()}});
    if (const auto r2 = evaluation.r2()) named.emplace_back(prefix + "_r2", *r2);
  }
  return named;
}

}  // namespace parley
