#pragma once

#include "parley/methods/method.h"

namespace parley {

// Federated neuroevolution (Kiss 2021, ch. 5): the server breeds a population, nodes only say how fit each one is.
void add_fne(MethodRegistry& registry);

}  // namespace parley
