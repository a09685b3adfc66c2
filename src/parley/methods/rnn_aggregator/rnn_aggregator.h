#pragma once

#include "parley/methods/method.h"

namespace parley {

// A learned aggregator: one small LSTM reads, coordinate by coordinate, what the clients sent and corrects their mean.
// The server trains it each round on examples of its own (server.examples), through the loss of the aggregated model.
void add_rnn_aggregator(MethodRegistry& registry);

}  // namespace parley
