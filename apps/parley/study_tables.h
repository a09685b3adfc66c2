// What comparisons, sweeps and evaluations print at their end.
#pragma once

#include <string>
#include <vector>

#include "parley/engine/study.h"

namespace parley::app {

// For a sweep over methods the grid, then every row with its costs, best first; then the uncertainty, if measured.
std::string closing_tables(const std::vector<StudyRun>& runs, const std::vector<StudyResult>& results);

// What the clients' own data, the posterior or another data set tell beside accuracy and loss; empty when no run asked
// for it.
std::string measured_tables(const std::vector<StudyRow>& rows);

}  // namespace parley::app
