#include "parley/engine/peer/residents.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "parley/base/errors.h"
#include "parley/engine/peer/mixing.h"

namespace parley {

Residents::Residents(const Experiment& experiment, ClientStore& store, std::size_t threads)
    : experiment_(experiment),
      network_(*experiment.network),
      store_(store),
      seed_(static_cast<std::uint64_t>(experiment.settings.run.integer("seed"))),
      nodes_(experiment),
      server_(experiment.server_setup()),
      workers_(experiment.client_setup(server_.schema()), threads),
      evaluator_(experiment, workers_, store),
      models_(experiment.clients()) {
  for (const std::size_t node : network_.nodes()) {
    models_[node].add("theta", experiment.layout, true, experiment.initial);
  }
  state_.add("theta", experiment.layout, true, experiment.initial);
}

std::vector<Residents::Trained> Residents::train(const std::vector<std::size_t>& nodes,
                                                 const std::vector<std::size_t>& round_of) {
  std::vector<Trained> result(nodes.size());
  workers_.run(nodes.size(), [&](ClientSide& side, std::size_t index) {
    const std::size_t node = nodes[index];
    try {
      result[index].update = train_at({round_of[index], node, seed_, models_[node]}, nodes_, side);
    } catch (const RefusedUpdate& refused) {
      result[index].refusal = refused.what();
    }
  });
  return result;
}

void Residents::count(const Trained& trained, std::size_t node, RoundReport& report) const {
  if (!trained.update) {
    report.refused.push_back(fmt::format("client {}: {}", node, trained.refusal));
    return;
  }
  ++report.clients;
  report.epochs += static_cast<double>(nodes_.local().epochs);
  report.train_loss += trained.update->training.loss_sum;
  report.examples += trained.update->training.examples;
  report.steps += trained.update->training.steps;
}

void Residents::close(RoundReport& report, double now) {
  if (report.clients == 0) {
    fail<RunError>("round {}: no training was accepted; {}", report.round, fmt::join(report.refused, "; "));
  }
  report.train_loss /= static_cast<double>(report.examples);
  std::vector<std::span<const float>> living;
  for (const std::size_t node : network_.living(now)) living.push_back(theta(node));
  if (living.empty()) return;  // the mean stays that of the last who lived
  std::ranges::copy(mean_of(living), state_.at("theta").begin());
}

Evaluation Residents::evaluate(const Dataset& data) {
  return evaluator_.evaluate({state_.at("theta")}, data);
}

MeanPrediction Residents::predict(const Dataset& data) {
  return evaluator_.predict({state_.at("theta")}, data);
}

std::map<std::string, double> Residents::measure(std::size_t round, bool last) {
  auto metrics = evaluator_.measure(state_, {state_.at("theta")}, round, last);
  if (experiment_.federated.data.test->classes == 0) return metrics;
  constexpr std::size_t kAsked = 10;
  std::vector<std::size_t> asked = network_.nodes();
  Stream(seed_, "asked nodes").shuffle(std::span(asked));
  asked.resize(std::min(asked.size(), kAsked));
  double sum = 0.0;
  for (const std::size_t node : asked) {
    sum += evaluator_.evaluate({theta(node)}, *experiment_.federated.data.test).accuracy();
  }
  metrics["single_accuracy"] = sum / static_cast<double>(asked.size());
  return metrics;
}

}  // namespace parley
