// Methods without a server: who meets whom, and what they do with each other's weights. What a node does with its own
// data is federated averaging's client half.
#pragma once

#include <functional>

#include "parley/base/registry.h"
#include "parley/engine/engine.h"
#include "parley/methods/method.h"

namespace parley {

struct PeerMethod {
  // Refuses, with an InputError, what the engine could not run.
  std::function<void(const Experiment&)> check;
  MakeEngine make;
};
using PeerRegistry = Registry<PeerMethod>;

// Every peer method, in one list.
PeerRegistry peers();

// The methods, with the peers among them: whoever looks a method up by name need not know which engine drives it.
MethodRegistry with_peers(MethodRegistry methods, const PeerRegistry& peers);

}  // namespace parley
