// The report's section on classes: how well each is told, what it is taken for, and how far confidence can be trusted.
#pragma once

#include <string>
#include <vector>

#include "parley/report/groups.h"

namespace parley {

// HTML; empty when no run has told classes apart.
std::string classes_section(const std::vector<ReportGroup>& groups);

}  // namespace parley
