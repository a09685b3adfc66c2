#include "parley/wire/prepare.h"

#include "parley/base/errors.h"

namespace parley::wire {
namespace {

constexpr const char* kServersName = "the server's settings";

// `servers`: what the server says, resolved.
Config settings_for(const NodeData& own, const ServerTerms& terms, const Settings& servers) {
  Config config = own.file.empty() ? Config::parse(terms.config, kServersName) : Config::read(own.file);
  config.drop("evaluate");  // the server's business, but for whether nodes test
  if (servers.evaluate.flag("clients")) config.set("evaluate.clients=true");
  if (!terms.rows) {
    config.erase("partition");
    config.set("partition.kind=iid");
    config.set("partition.clients=1");
    config.set("partition", "holdout", servers.partition.real("holdout"));
    if (own.file.empty()) config.erase("data");
  }
  for (const auto& assignment : own.data) config.set("data." + assignment);
  return config;
}

void require_sense(const NodeData& own, bool rows) {
  if (rows && !own.client) {
    fail("this federation's nodes are the clients of its [partition]; say which one this is with --client");
  }
  if (!rows && own.client) {
    fail("--client {}: this federation's nodes have data of their own (serve.nodes); describe them with --data instead",
         *own.client);
  }
  if (!rows && own.data.empty() && own.file.empty()) {
    fail("this federation's nodes have data of their own; say which, for example --data name=csv --data path=FILE");
  }
}

}  // namespace

void see_as(Experiment& experiment, const Scales& scales) {
  TrainTest& data = experiment.federated.data;
  auto& own_test = experiment.federated.own_test_data;
  const bool held_out = own_test == data.train;
  data = {rescaled(*data.train, scales), rescaled(*data.test, scales)};
  if (own_test) own_test = held_out ? data.train : data.test;
  if (experiment.ood) experiment.ood = rescaled(*experiment.ood, {.inputs = scales.inputs, .targets = {}});
}

decltype(NodeSetup::prepare) preparer(NodeData data, const Catalogue& catalogue) {
  const auto cache = std::make_shared<DataCache>();
  return [own = std::move(data), &catalogue, cache](const ServerTerms& terms, const Whole& whole) -> OwnExperiment {
    require_sense(own, terms.rows);
    const Settings servers = resolve(Config::parse(terms.config, kServersName), catalogue);
    const Settings settings = resolve(settings_for(own, terms, servers), catalogue);
    auto experiment = std::make_shared<Experiment>(build(settings, catalogue, *cache, whole.sizes));
    if (!terms.rows && !whole.sizes.empty()) see_as(*experiment, whole.scales);
    const std::size_t row = own.client.value_or(0);
    if (row >= experiment->federated.partition.clients.size()) {
      fail("--client {}: the partition has {} clients; expected 0 to {}", row,
           experiment->federated.partition.clients.size(), experiment->federated.partition.clients.size() - 1);
    }
    return {experiment, row};
  };
}

}  // namespace parley::wire
