// What the model does not know, as [evaluate] asks for it: predictions under the method's posterior, and whether doubt
// tells data of another kind from the test set.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "parley/engine/federation.h"

namespace parley {

// For metrics.jsonl: posterior_* when evaluate.posterior_samples > 0, ood_auroc when there is evaluate.ood, and
// posterior_ood_auroc with both. Throws RunError when sampled networks give no finite predictions.
std::map<std::string, double> measure_uncertainty(const Experiment& experiment, Federation& federation,
                                                  std::size_t round);

}  // namespace parley
