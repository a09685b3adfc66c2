// The report's section on travelling models: where each has been, and what it gained there.
#pragma once

#include <string>

#include "parley/report/report.h"

namespace parley {

// Empty when no run has models that travel. Plain HTML and SVG; it needs no JavaScript.
std::string lineage_section(const ReportData& data);

}  // namespace parley
