// How a model did on a node's own test data, as a message.
#pragma once

#include <optional>

#include "parley/engine/client_results.h"
#include "parley/wire/federation.pb.h"

namespace parley::wire {

// Sums alone: which classes a node has it does not say.
void fill(v1::Tested& to, const ClientResult& result);
// Nothing where the node has no test data. Throws InputError for numbers that cannot be.
std::optional<ClientResult> result_in(const v1::Tested& tested);

}  // namespace parley::wire
