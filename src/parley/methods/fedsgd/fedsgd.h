#pragma once

#include "parley/methods/method.h"

namespace parley {

// For methods whose clients send a gradient and take no steps: refuses the settings of [client] that are about steps.
// `method` stands in the message.
void refuse_local_steps(const MethodContext& context, const std::string& method);

// FedSGD (McMahan et al. 2017): one exact gradient from every client, one step of the server.
void add_fedsgd(MethodRegistry& registry);

}  // namespace parley
