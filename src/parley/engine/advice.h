// What a careful colleague would say of a run: one line each, with the remedy and where to read on.
#pragma once

#include <string>
#include <vector>

#include "parley/engine/experiment.h"
#include "parley/store/run_folder.h"

namespace parley {

// Of what is about to run.
std::vector<std::string> advice(const Experiment& experiment);
// Of what came out: the lines of metrics.jsonl.
std::vector<std::string> advice(const std::vector<Json>& metrics);

}  // namespace parley
