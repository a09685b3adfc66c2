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
  RowLists train, test;
  std::vector<std::uint32_t> rows;
  for (std::size_t node = 0; node < train_.clients.size(); ++node) {
    rows.assign(train_.clients[node].begin(), train_.clients[node].end());
    if (rows.size() < 2) {  // too little to set anything aside
      train.push_back(rows);
      test.push_back(rows);
      continue;
    }
    Stream(seed, "node test", 0, node).shuffle(std::span(rows));
    const auto wanted = static_cast<std::size_t>(share * static_cast<double>(rows.size()));
    const std::size_t aside = std::clamp<std::size_t>(wanted, 1, rows.size() - 1);
    train.push_back(std::span(rows).first(rows.size() - aside));
    test.push_back(std::span(rows).last(aside));
  }
  train_.clients = std::move(train);
  test_.clients = std::move(test);
}

std::size_t model_bytes(const Experiment& experiment) {
  State state;
  state.add("theta", experiment.layout, /*broadcast=*/true, experiment.initial);
  return Broadcast(state).wire_bytes();
}

Update train_at(const NodeTraining& what, const NodeData& nodes, ClientSide& side) {
  const Invitation invitation{
      .broadcast = Broadcast(what.state, what.round), .client = what.node, .cohort = 0, .seed = what.seed};
  Answer answer;
  side.answer(invitation, {.train = nodes.train(what.node)}, std::nullopt, answer, what.model);
  answer.update.check(answer.update.schema());
  return std::move(answer.update);
}

}  // namespace parley
