#include "parley/methods/central/central.h"

#include "parley/methods/fedavg/fedavg.h"

namespace parley {

void add_central(MethodRegistry& registry) {
  registry.add({.name = "central", .summary = "One client holds all clients' rows: what federation is held against."},
               {[](const MethodContext& context) { return make_averaging(context, 0.0); }, /*pools=*/true});
}

}  // namespace parley
