// The report's section on what each client has of the federation: who gains from a model of its own, and who loses.
#pragma once

#include <string>
#include <vector>

#include "parley/report/groups.h"

namespace parley {

// Empty when no run has asked its clients (evaluate.clients).
std::string clients_section(const std::vector<ReportGroup>& groups);

}  // namespace parley
