#pragma once

#include "parley/methods/method.h"

namespace parley {

// No federation: each client goes on with its own model, from the common initial weights. What every federated method
// must beat on the clients' own data.
void add_local(MethodRegistry& registry);

}  // namespace parley
