#pragma once

#include "parley/methods/method.h"

namespace parley {

// Differential evolution, DE/rand/1/bin (Storn & Price 1997), on the federated fitness.
void add_de(MethodRegistry& registry);

}  // namespace parley
