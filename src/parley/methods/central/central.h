#pragma once

#include "parley/methods/method.h"

namespace parley {

// No federation: one client that holds everybody's rows. It trains as [client] says in every round; what federated
// methods are held against. The method is fedavg; whoever deals the rows pools them for it (MakeMethod::pools_data).
void add_central(MethodRegistry& registry);

}  // namespace parley
