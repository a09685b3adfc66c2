#include "parley/engine/federation.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "parley/base/errors.h"
#include "parley/base/pool.h"
#include "parley/engine/cohort.h"
#include "parley/engine/uncertainty.h"

namespace parley {
namespace {

std::size_t chunks_of(std::size_t rows) {
  return (rows + kEvaluationChunk - 1) / kEvaluationChunk;
}

}  // namespace

// What one thread owns: a model and everything that is reused from client to client.
struct Federation::Worker {
  std::unique_ptr<Model> model;         // the shared one
  std::unique_ptr<Model> client_model;  // what clients train, when it is another
  LocalTrainer trainer;
  EvaluationBuffer evaluation;

  Model& trained() { return client_model ? *client_model : *model; }
};

Federation::Federation(const Experiment& experiment, ClientStore& store, std::size_t threads)
    : experiment_(experiment),
      store_(store),
      local_(experiment.settings.client),
      seed_(static_cast<std::uint64_t>(experiment.settings.run.integer("seed"))) {
  state_.add("theta", experiment.layout, true, experiment.initial);
  experiment.method->start(state_);
  for (const auto& slot : experiment.server_step->slots()) {
    state_.add(slot.name, experiment.layout, false, Flat(experiment.layout->size(), slot.initial));
  }
  do {
    workers_.push_back(std::make_unique<Worker>(experiment.new_model(), experiment.method->client_model(),
                                                LocalTrainer(experiment.make_optimizer(experiment.settings.client))));
  } while (workers_.size() < threads && !workers_.front()->trained().exclusive());
}

Federation::~Federation() = default;

void Federation::train_client(Worker& worker, std::size_t round, std::size_t client, const Schema& schema,
                              Update& update) const {
  const Federated& federated = experiment_.federated;
  const ClientTask task{.round = round,
                        .client = client,
                        .seed = seed_,
                        .broadcast = Broadcast(state_),
                        .data = federated.partition.view(*federated.data.train, client),
                        .model = worker.trained(),
                        .trainer = worker.trainer,
                        .local = local_,
                        .store = store_};
  update.client = client;
  update.weight = experiment_.weight_of(task.data);
  experiment_.method->client(task, update);
  for (std::size_t i = 0; i < experiment_.stages.size(); ++i) {
    experiment_.stages[i]->forward(schema, task.broadcast, update, task.stream(fmt::format("stage {}", i)));
  }
}

void Federation::require_enough(const CohortResult& result, const RoundReport& report, std::size_t cohort) const {
  const auto wanted = static_cast<std::size_t>(experiment_.settings.server.integer("min_clients"));
  const std::size_t least = wanted > 0 ? wanted : (cohort + 1) / 2;
  if (result.sum.count() >= least && result.sum.count() > 0) return;
  constexpr std::size_t kShown = 5;
  const auto shown = std::span(report.refused).first(std::min(kShown, report.refused.size()));
  fail<RunError>("round {}: only {} of {} clients were accepted, {} are needed (server.min_clients); {}{}",
                 report.round, result.sum.count(), cohort, least, fmt::join(shown, "; "),
                 report.refused.size() > kShown ? fmt::format("; and {} more", report.refused.size() - kShown) : "");
}

RoundReport Federation::round(std::size_t number, const RoundProgress& done) {
  const auto cohort =
      draw_cohort(experiment_.federated.partition, experiment_.settings.server.real("participation"), seed_, number,
                  [&](const CohortTask& task) { return experiment_.method->cohort(task); });
  const Schema schema = experiment_.method->schema();
  CohortResult result = train_and_fold(
      workers_.size(), cohort.size(), schema,
      [&](std::size_t worker, std::size_t position, Update& update) {
        train_client(*workers_[worker], number, cohort[position], schema, update);
      },
      [&](std::size_t position, bool accepted) {
        if (!accepted) store_.discard(cohort[position]);
        if (done) done(position + 1, cohort.size());
      });

  RoundReport report{.round = number,
                     .clients = result.sum.count(),
                     .examples = result.sum.training().examples,
                     .steps = result.sum.training().steps,
                     .train_loss = result.sum.training().loss_sum / static_cast<double>(result.sum.training().examples),
                     .bytes_up = result.sum.wire_bytes(),
                     .bytes_down = state_.broadcast_bytes() * cohort.size()};
  for (const auto& refusal : result.refused) {
    report.refused.push_back(fmt::format("client {}: {}", cohort[refusal.position], refusal.reason));
  }
  require_enough(result, report, cohort.size());

  State next = state_;  // so that a failed step leaves the state of the round before
  for (std::size_t i = experiment_.stages.size(); i-- > 0;) {
    experiment_.stages[i]->backward(Broadcast(state_), result.sum,
                                    Stream(seed_, fmt::format("stage {} on the sum", i), number));
  }
  ServerTask task{.round = number,
                  .clients = experiment_.clients(),
                  .state = next,
                  .sum = result.sum,
                  .step = *experiment_.server_step};
  experiment_.method->server(task);
  const auto theta = std::as_const(next).at("theta");
  if (!std::ranges::all_of(theta, [](float x) { return std::isfinite(x); })) {
    fail<RunError>("round {}: the server's step diverged: the new weights are not finite; lower server.lr or client.lr",
                   number);
  }
  state_ = std::move(next);
  report.extra = std::move(task.metrics);
  return report;
}

void Federation::for_each_chunk(std::span<const float> theta, std::size_t rows, const Visit& visit) {
  for (const auto& worker : workers_) std::ranges::copy(theta, worker->model->parameters().begin());
  run_jobs(workers_.size(), chunks_of(rows), [&](std::size_t worker, std::size_t chunk) {
    const std::size_t begin = chunk * kEvaluationChunk;
    visit(*workers_[worker], begin, std::min(begin + kEvaluationChunk, rows));
  });
}

Evaluation Federation::evaluate(const Dataset& data) {
  const WholeView whole(data);
  std::vector<Evaluation> parts(chunks_of(data.size()));
  for_each_chunk(state_.at("theta"), data.size(), [&](Worker& worker, std::size_t begin, std::size_t end) {
    parts[begin / kEvaluationChunk] = parley::evaluate(*worker.model, whole.view(), begin, end, worker.evaluation);
  });
  Evaluation total = parts.at(0);
  for (std::size_t i = 1; i < parts.size(); ++i) total.merge(parts[i]);  // in order: the same bits for any threads
  return total;
}

std::map<std::string, double> Federation::measure(std::size_t round) {
  return measure_uncertainty(experiment_, *this, round);
}

MeanPrediction Federation::nothing_predicted(const Dataset& data) const {
  const Model& model = *workers_.front()->model;
  return {model.loss(), data.size(), model.outputs()};
}

void Federation::add_network(std::span<const float> theta, const View& view, std::size_t network,
                             MeanPrediction& mean) {
  for_each_chunk(theta, view.size(), [&](Worker& worker, std::size_t begin, std::size_t end) {
    auto& [batch, outputs] = worker.evaluation;
    outputs.resize((end - begin) * mean.width());
    worker.model->predict(batch.gather_range(view, begin, end), outputs);
    mean.add(network, begin, outputs);
  });
}

MeanPrediction Federation::predict(const Dataset& data) {
  MeanPrediction mean = nothing_predicted(data);
  add_network(state_.at("theta"), WholeView(data).view(), 0, mean);
  return mean;
}

std::vector<MeanPrediction> Federation::predict(const std::vector<const Dataset*>& sets, std::size_t round,
                                                std::size_t samples, const PosteriorDraw& how) {
  std::vector<MeanPrediction> means;
  std::deque<WholeView> views;  // stay where they are: a view points into its own
  for (const Dataset* data : sets) {
    means.push_back(nothing_predicted(*data));
    views.emplace_back(*data);
  }
  Flat theta(experiment_.layout->size());
  for (std::size_t sample = 0; sample < samples; ++sample) {
    Stream stream(seed_, "posterior", round, sample);
    experiment_.method->draw(state_, how, stream, theta);
    for (std::size_t i = 0; i < sets.size(); ++i) add_network(theta, views[i].view(), sample, means[i]);
  }
  return means;
}

}  // namespace parley
