#pragma once

#include "parley/methods/method.h"

namespace parley {

// Particle swarms (Kennedy & Eberhart 1995, constants of Clerc & Kennedy 2002) on the federated fitness.
void add_pso(MethodRegistry& registry);

}  // namespace parley
