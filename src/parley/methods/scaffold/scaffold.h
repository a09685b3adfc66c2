#pragma once

#include "parley/methods/method.h"

namespace parley {

// SCAFFOLD (Karimireddy et al. 2020), option II: control variates take the drift out of local training.
void add_scaffold(MethodRegistry& registry);

}  // namespace parley
