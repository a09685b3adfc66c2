#pragma once

#include "parley/methods/method.h"

namespace parley {

// pFedMe (T Dinh et al. 2020): the shared model minimises the mean of the clients' Moreau envelopes
// min_v F_k(v) + λ/2·‖v − w‖²; the v are the clients' own models.
void add_pfedme(MethodRegistry& registry);

}  // namespace parley
