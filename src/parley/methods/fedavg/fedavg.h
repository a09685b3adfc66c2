#pragma once

#include "parley/methods/method.h"

namespace parley {

// Federated averaging (McMahan et al. 2017): θ ← Σ n θ_n / Σ n.
//
// `proximal` is the one thing that FedProx adds: clients minimise their loss + μ/2·‖θ − θ_s‖².
std::unique_ptr<Method> make_averaging(const MethodContext& context, double proximal);

void add_fedavg(MethodRegistry& registry);

}  // namespace parley
