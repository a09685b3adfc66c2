#include "parley/methods/aggregate.h"

#include <algorithm>
#include <cassert>

#include "parley/base/errors.h"
#include "parley/methods/local_parts.h"
#include "parley/methods/running_statistics.h"

namespace parley {
namespace {

// The roles that each key of [aggregate] is about.
struct Part {
  const char* key;
  std::set<Role> roles;
  const char* described;
};
const std::vector<Part>& parts() {
  static const std::vector<Part> all = {
      {"running_mean", {Role::running_mean}, "running means (batch norm)"},
      {"running_var", {Role::running_var}, "running variances (batch norm)"},
      {"norm", {Role::norm_scale, Role::norm_shift}, "norm layers"},
  };
  return all;
}

void require_part(const Part& part, const std::string& value, const Layout& layout) {
  const bool there =
      std::ranges::any_of(layout.entries(), [&](const auto& entry) { return part.roles.contains(entry.role); });
  if (there) return;
  fail(
      "aggregate.{} = \"{}\": the model has no {}; use \"mean\", or a model that has them (lenet, cnn4, … with "
      "model.norm = \"batch\")",
      part.key, value, part.described);
}

// Statistics and weights that stay are taken from the model in which the method leaves a client's trained weights.
void require_weights(const Part& part, const std::string& value, const std::string& name, const Method& method) {
  const auto channels = method.schema().channels;
  const bool sends_weights = std::ranges::any_of(channels, [](const auto& c) { return c.layout != nullptr; });
  if (!sends_weights) {
    fail("aggregate.{} = \"{}\": clients of {} do not send the weights of the model; use \"mean\"", part.key, value,
         name);
  }
  if (std::string_view(part.key) == "norm" && channels.size() > 1) {
    fail(
        "aggregate.norm = \"local\": {} sends more than its weights, and what it learns of one client's norm layers "
        "would reach the others; use \"mean\", or fedavg, fedprox, fednova, fedpa or fedsgd",
        name);
  }
}

// The server's mean of the clients' optimiser states would tell the others of each one's norm layers.
void refuse_central_state(const Options& client) {
  if (client.text("state") != "central" || client.text("optimizer") == "sgd") return;
  fail(
      "client.state = \"central\": norm layers that stay with the client have an optimiser state that must stay too; "
      "use \"worker\" or \"reset\"");
}

VarianceRule rule_of(const std::string& name) {
  if (name == "pooled") return VarianceRule::pooled;
  assert(name == "mixture");
  return VarianceRule::mixture;
}

}  // namespace

std::vector<Option> aggregate_options() {
  return {
      {"running_mean",
       std::string("mean"),
       "running means of norm layers: averaged, or kept by each client",
       {},
       {"mean", "local"}},
      {"running_var",
       std::string("mean"),
       "running variances: averaged; averaged by degrees of freedom; that of the clients' data together, with the "
       "spread of their means; or kept by each client",
       {},
       {"mean", "pooled", "mixture", "local"}},
      {"norm",
       std::string("mean"),
       "scale and shift of norm layers: averaged, or kept by each client",
       {},
       {"mean", "local"}},
  };
}

std::unique_ptr<Method> aggregate_by_role(std::unique_ptr<Method> method, const std::string& name,
                                          const MethodContext& context) {
  std::set<Role> local;
  for (const auto& part : parts()) {
    const std::string& value = context.aggregate.text(part.key);
    if (value == "mean") continue;
    require_part(part, value, *context.layout);
    require_weights(part, value, name, *method);
    if (value == "local") local.insert(part.roles.begin(), part.roles.end());
    if (value == "local" && std::string_view(part.key) == "norm") refuse_central_state(context.client);
  }
  const std::string& running_var = context.aggregate.text("running_var");
  const bool by_rule = running_var != "mean" && running_var != "local";
  if (by_rule && local.contains(Role::running_mean)) {
    fail(
        "aggregate.running_mean = \"local\": the server's running variance is about its running mean, which then does "
        "not exist; use \"mean\", or running_var = \"local\" too");
  }
  if (!local.empty()) method = keep_local(std::move(method), *context.layout, local);
  if (by_rule) method = aggregate_running_statistics(std::move(method), *context.layout, rule_of(running_var));
  return method;
}

void require_own_aggregation(const std::string& name, const MethodContext& context, const std::string& instead) {
  for (const auto& part : parts()) {
    const std::string& value = context.aggregate.text(part.key);
    if (value != "mean") fail("aggregate.{} = \"{}\": {} has a rule of its own; {}", part.key, value, name, instead);
  }
}

}  // namespace parley
