#pragma once

#include "parley/methods/method.h"

namespace parley {

// FedNova (Wang et al. 2020): averages steps that are normalised by how many of them a client took.
void add_fednova(MethodRegistry& registry);

}  // namespace parley
