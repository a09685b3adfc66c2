#pragma once

#include "parley/methods/method.h"

namespace parley {

// FedSGD (McMahan et al. 2017): one exact gradient from every client, one step of the server.
// Refuses the settings of [client] that need local steps; `method` stands in the message.
void refuse_local_steps(const MethodContext& context, const std::string& method);

void add_fedsgd(MethodRegistry& registry);

}  // namespace parley
