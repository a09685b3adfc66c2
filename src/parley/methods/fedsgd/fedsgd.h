#pragma once

#include "parley/methods/method.h"

namespace parley {

// FedSGD (McMahan et al. 2017): one exact gradient from every client, one step of the server.
void add_fedsgd(MethodRegistry& registry);

}  // namespace parley
