#include "parley/methods/fedprox/fedprox.h"

#include "parley/methods/fedavg/fedavg.h"

namespace parley {

void add_fedprox(MethodRegistry& registry) {
  registry.add({.name = "fedprox",
                .summary = "Averages weights that a proximal term kept near the global model.",
                .source = "Li et al. 2020",
                .options = {{"mu", 0.01, "strength of the proximal term; 0 is fedavg", at_least(0.0)}}},
               [](const MethodContext& context) { return make_averaging(context, context.options.real("mu")); });
}

}  // namespace parley
