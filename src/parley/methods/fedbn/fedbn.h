#pragma once

#include "parley/methods/method.h"

namespace parley {

// FedBN (Li et al. 2021): fedavg whose norm layers, statistics and all, stay with each client. The same as fedavg with
// everything in [aggregate] set to "local"; registered so that it is found by its name.
void add_fedbn(MethodRegistry& registry);

}  // namespace parley
