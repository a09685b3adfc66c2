#include "parley/methods/fedbn/fedbn.h"

#include "parley/methods/aggregate.h"
#include "parley/methods/fedavg/fedavg.h"

namespace parley {
namespace {

std::unique_ptr<Method> make_fedbn(const MethodContext& context) {
  require_own_aggregation("fedbn", context, "use fedavg to choose part by part");
  Options all_local("aggregate", aggregate_options());
  all_local.set("norm", std::string("local"));
  // A model with group norm has layers to keep but no statistics.
  if (!running_pairs(*context.layout).empty()) {
    all_local.set("running_mean", std::string("local"));
    all_local.set("running_var", std::string("local"));
  }
  return aggregate_by_role(make_averaging(context, 0.0), "fedbn", context.with_aggregate(all_local));
}

}  // namespace

void add_fedbn(MethodRegistry& registry) {
  registry.add({.name = "fedbn",
                .summary = "fedavg whose norm layers stay with each client.",
                .source = "Li et al. 2021",
                .needs = {{"model.norm", std::string("batch")}}},
               make_fedbn);
}

}  // namespace parley
