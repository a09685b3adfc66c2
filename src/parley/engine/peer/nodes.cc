#include "parley/engine/peer/nodes.h"

#include <algorithm>

namespace parley {

NodeData::NodeData(const Experiment& experiment)
    : data_(experiment.federated.data.train.get()),
      local_(experiment.settings.client),
      train_(experiment.federated.partition),
      test_(experiment.federated.partition) {
  const double share = experiment.settings.peer.real("test_share");
  if (share == 0.0) return;
  const auto seed = static_cast<std::uint64_t>(experiment.settings.run.integer("seed"));
  for (std::size_t node = 0; node < train_.clients.size(); ++node) {
    auto& rows = train_.clients[node];
    if (rows.size() < 2) continue;  // too little to set anything aside
    Stream(seed, "node test", 0, node).shuffle(std::span(rows));
    const auto wanted = static_cast<std::size_t>(share * static_cast<double>(rows.size()));
    const auto first = rows.end() - static_cast<std::ptrdiff_t>(std::clamp<std::size_t>(wanted, 1, rows.size() - 1));
    test_.clients[node].assign(first, rows.end());
    rows.erase(first, rows.end());
  }
}

Update train_at(const NodeTraining& what, const Experiment& experiment, const NodeData& nodes, LocalTrainer& trainer,
                ClientStore& store) {
  const ClientTask task{.round = what.round,
                        .client = what.node,
                        .seed = what.seed,
                        .broadcast = Broadcast(what.state),
                        .data = nodes.train(what.node),
                        .model = what.model,
                        .trainer = trainer,
                        .local = nodes.local(),
                        .store = store};
  const Schema schema = experiment.method->schema();
  Update update;
  update.shape(schema);
  update.client = what.node;
  update.weight = experiment.weight_of(task.data);
  experiment.method->client(task, update);
  Sum::check(schema, update);
  return update;
}

}  // namespace parley
