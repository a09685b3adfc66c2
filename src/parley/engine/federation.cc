#include "parley/engine/federation.h"

#include <algorithm>

namespace parley {

void describe_answers(const OpenRound& round, const FoldedRound& folded, RoundReport& report) {
  const Sum& sum = folded.sum;
  report.clients = sum.count();
  report.examples = sum.training().examples;
  report.steps = sum.training().steps;
  report.train_loss = sum.training().loss_sum / static_cast<double>(sum.training().examples);
  report.bytes_up = sum.wire_bytes();
  for (const auto& refusal : folded.refused) {
    report.refused.push_back("client " + std::to_string(round.cohort[refusal.position]) + ": " + refusal.reason);
  }
}

Federation::Federation(const Experiment& experiment, ClientStore& store, std::size_t threads,
                       const MakeExecutor& make_executor)
    : experiment_(experiment),
      roster_(experiment.sizes),
      server_(experiment.server_setup()),
      workers_(experiment.client_setup(server_.schema()), threads),
      evaluator_(experiment, workers_, store),
      executor_(make_executor(
          workers_, [this](std::size_t client) { return evaluator_.data_of(client); }, store)),
      budget_(experiment, executor_->turns() != nullptr) {
  evaluator_.ask_elsewhere([this](const Broadcast& broadcast) { return executor_->survey(broadcast); });
}

RoundReport Federation::round(std::size_t number, const RoundProgress& done) {
  const OpenRound round = server_.open(number, roster_, budget_.chooses_cohort() ? &budget_ : nullptr);
  const std::size_t asked = round.cohort.size(), bytes_down = round.broadcast.wire_bytes();
  RoundReport report{.round = number};
  const auto account = [&](std::size_t position, Settlement& settled) {
    if (!settled.refusal) {
      const double seconds =
          experiment_.pace->turn_seconds(settled.client, bytes_down, settled.steps, settled.wire_bytes);
      report.epochs += settled.epochs;
      report.simulated_seconds = std::max(report.simulated_seconds, seconds);  // the slowest node and link
      if (settled.own) evaluator_.remember(settled.client, std::move(*settled.own));
    }
    if (done) done(position + 1, asked);
  };
  OrderedFold fold(server_.schema(), executor_->window(), account);
  executor_->run({.round = round,
                  .invitation =
                      [&](std::size_t position) {
                        return Invitation{.broadcast = round.broadcast,
                                          .client = round.cohort[position],
                                          .cohort = asked,
                                          .seed = experiment_.seed(),
                                          .test_own = evaluator_.asks_clients(),
                                          .steps = budget_.steps(round.cohort[position], number)};
                      },
                  .check = [&](const Update& update) { server_.check(round, update); },
                  .fold = fold});
  if (const auto* turns = executor_->turns()) {
    for (const Turn& turn : *turns) budget_.observe(number, turn);
  }
  FoldedRound folded = fold.take();
  describe_answers(round, folded, report);
  report.transmissions = asked + report.clients;
  report.bytes_down = bytes_down * asked;
  ClosedRound closed = server_.close(round, folded);
  report.extra = std::move(closed.metrics);
  report.finished = closed.finished;
  if (budget_.chooses_cohort()) report.extra["left_out"] = static_cast<double>(candidates() - asked);
  return report;
}

Evaluation Federation::evaluate(const Dataset& data) {
  if (&data != experiment_.federated.data.test.get()) return evaluator_.evaluate(members(), data);
  const auto here = [&](std::size_t begin, std::size_t end) {
    return evaluator_.evaluate_chunks(members(), data, begin, end);
  };
  return merged(executor_->test(server_.state().at("theta"), chunks_of(data), here));
}

std::size_t Federation::candidates() const {
  return cohort_size(roster_.holders().size(), experiment_.settings.server.real("participation"));
}

Json Federation::progress() const {
  Json progress = evaluator_.progress();
  if (const Json speeds = budget_.progress(); !speeds.is_null()) progress["speeds"] = speeds;
  return progress;
}

void Federation::restore(const Json& progress) {
  evaluator_.restore(progress);
  if (progress.contains("speeds")) budget_.restore(progress.at("speeds"));
}

}  // namespace parley
