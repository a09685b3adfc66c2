#pragma once

#include "parley/methods/method.h"

namespace parley {

// No federation: one client that holds everybody's rows. It trains as [client] says in every round; what federated
// methods are held against. The method is fedavg; the engine deals the pooled rows (engine/experiment).
inline constexpr const char* kCentral = "central";
void add_central(MethodRegistry& registry);

}  // namespace parley
