// client.state: what becomes of the local optimisers' state from round to round.
//
//   reset     every client starts afresh in every round
//   worker    each client keeps its own, in its record (Kiss 2021, §4.3)
//   central   it travels with the weights: broadcast, trained on, averaged by weight, squares linearly (§4.4)
//
// A wrapper around any method that trains by ClientTask::train, once a round. The method does not see it: the state
// reaches local training beside it (ClientTask::optimizer_state), and what travels stands behind the method's own
// channels and scalars.
#pragma once

#include <memory>
#include <vector>

#include "parley/methods/method.h"

namespace parley {

// The method itself when there is nothing to carry: client.state = "reset", or an optimiser without slots.
std::unique_ptr<Method> carry_optimizer_state(std::unique_ptr<Method> method, const MethodContext& context,
                                              const std::vector<Optimizer::Slot>& slots);

}  // namespace parley
