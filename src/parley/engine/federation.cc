#include "parley/engine/federation.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>

#include "parley/base/errors.h"
#include "parley/base/pool.h"
#include "parley/engine/cohort.h"
#include "parley/engine/statistics.h"
#include "parley/engine/uncertainty.h"

namespace parley {
namespace {

// Adds what the model, as network number `network`, predicts for the rows [begin, end) of the view.
void add_rows(Model& model, const View& view, std::size_t begin, std::size_t end, std::size_t network,
              EvaluationBuffer& buffer, MeanPrediction& mean) {
  buffer.outputs.resize((end - begin) * mean.width());
  model.predict(buffer.batch.gather_range(view, begin, end), buffer.outputs);
  mean.add(network, begin, buffer.outputs);
}

// Likewise for all its rows.
void add_view(Model& model, const View& view, std::size_t network, EvaluationBuffer& buffer, MeanPrediction& mean) {
  for (std::size_t begin = 0; begin < view.size(); begin += kEvaluationChunk) {
    add_rows(model, view, begin, std::min(begin + kEvaluationChunk, view.size()), network, buffer, mean);
  }
}

// Rows of evaluate.ood for one client: enough to rank against, and no more than its own data deserve.
std::vector<std::uint32_t> ood_rows(const Experiment& experiment, std::size_t own) {
  constexpr std::size_t kLeast = 200;
  if (!experiment.ood) return {};
  std::vector<std::uint32_t> rows(std::min(experiment.ood->size(), std::max(kLeast, own)));
  std::iota(rows.begin(), rows.end(), 0u);
  return rows;
}

void finetune_model(LocalTrainer& trainer, const ClientTask& task, const LocalOptions& local) {
  try {
    trainer.train(task.model, task.data, local, task.lr(), task.stream("finetune"));
  } catch (const RefusedUpdate& refused) {
    fail<RunError>("evaluate.finetune: client {}: {}; lower client.lr", task.client, refused.what());
  }
}

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
      seed_(static_cast<std::uint64_t>(experiment.settings.run.integer("seed"))),
      own_(experiment.clients()) {
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

ClientTask Federation::task_for(Worker& worker, Model& model, std::size_t round, std::size_t client) const {
  const Federated& federated = experiment_.federated;
  return {.round = round,
          .client = client,
          .seed = seed_,
          .broadcast = Broadcast(state_),
          .data = federated.partition.view(*federated.data.train, client),
          .model = model,
          .trainer = worker.trainer,
          .local = local_,
          .store = store_};
}

Federation::Turn Federation::train_client(Worker& worker, std::size_t round, std::size_t cohort, std::size_t client,
                                          const Schema& schema, Update& update) const {
  ClientTask task = task_for(worker, worker.trained(), round, client);
  task.cohort = cohort;
  update.client = client;
  update.weight = experiment_.weight_of(task.data);
  experiment_.method->client(task, update);
  std::optional<ClientResult> own = own_result(worker, task, schema, update);
  for (std::size_t i = 0; i < experiment_.stages.size(); ++i) {
    experiment_.stages[i]->forward(schema, task.broadcast, update, task.stream(fmt::format("stage {}", i)));
  }
  return {.seconds = experiment_.pace->turn_seconds(client, state_.broadcast_bytes(), update.training.steps,
                                                    update.wire_bytes()),
          .epochs = static_cast<double>(update.training.examples) / static_cast<double>(task.data.size()),
          .own = std::move(own)};
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
  const Schema schema = schema_of(*experiment_.method, *experiment_.layout);
  std::vector<Turn> turns(cohort.size());
  CohortResult result = train_and_fold(
      workers_.size(), cohort.size(), schema,
      [&](std::size_t worker, std::size_t position, Update& update) {
        turns[position] = train_client(*workers_[worker], number, cohort.size(), cohort[position], schema, update);
      },
      [&](std::size_t position, bool accepted) {
        const std::size_t client = cohort[position];
        if (!accepted) {
          store_.discard(client);
        } else if (turns[position].own) {
          own_[client] = std::move(turns[position].own);
        }
        if (done) done(position + 1, cohort.size());
      });

  RoundReport report{.round = number,
                     .clients = result.sum.count(),
                     .examples = result.sum.training().examples,
                     .steps = result.sum.training().steps,
                     .train_loss = result.sum.training().loss_sum / static_cast<double>(result.sum.training().examples),
                     .transmissions = cohort.size() + result.sum.count(),
                     .bytes_up = result.sum.wire_bytes(),
                     .bytes_down = state_.broadcast_bytes() * cohort.size()};
  for (const Turn& turn : turns) {
    report.epochs += turn.epochs;
    report.simulated_seconds = std::max(report.simulated_seconds, turn.seconds);  // the slowest node and link
  }
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
                  .cohort = cohort.size(),
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
  report.finished = task.finished;
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

std::map<std::string, double> Federation::measure(std::size_t round, bool last) {
  auto metrics = measure_uncertainty(experiment_, *this, round);
  metrics.merge(compare_statistics(experiment_, state_));
  if (experiment_.settings.evaluate.flag("clients")) {
    const ClientSurvey found = survey(round, last);
    client_table_ = found.table();
    metrics.merge(found.metrics());
  }
  return metrics;
}

Json Federation::progress() const {
  if (!experiment_.settings.evaluate.flag("clients")) return nullptr;
  return {{"own_results", to_json(own_)}};
}

void Federation::restore(const Json& progress) {
  if (progress.contains("own_results")) own_ = results_from_json(progress.at("own_results"));
}

ClientResult Federation::test_client(Worker& worker, const ClientTask& task, std::size_t networks,
                                     const std::function<void(std::size_t)>& load) const {
  const View own = experiment_.federated.own_test_view(task.client);
  const std::vector<std::uint32_t> others = ood_rows(experiment_, own.size());
  const View ood{.data = experiment_.ood.get(), .rows = others, .permutation = own.permutation};
  MeanPrediction mean(task.model.loss(), own.size(), task.model.outputs());
  MeanPrediction ood_mean(task.model.loss(), ood.size(), task.model.outputs());
  for (std::size_t network = 0; network < networks; ++network) {
    load(network);
    add_view(task.model, own, network, worker.evaluation, mean);
    add_view(task.model, ood, network, worker.evaluation, ood_mean);
  }
  ClientResult result{.evaluation = parley::evaluate(mean, own), .ood_auroc = {}};
  if (ood.size() > 0) result.ood_auroc = auroc(doubts(ood_mean), doubts(mean));
  return result;
}

std::optional<ClientResult> Federation::own_result(Worker& worker, const ClientTask& task, const Schema& schema,
                                                   const Update& update) const {
  if (!experiment_.settings.evaluate.flag("clients")) return {};
  if (experiment_.federated.own_test_view(task.client).size() == 0 || experiment_.method->own_networks() == 0)
    return {};
  Sum::check(schema, update);  // a model that diverged is refused for that, and not for what it predicts
  const Method& method = *experiment_.method;
  try {
    return test_client(worker, task, method.own_networks(),
                       [&](std::size_t network) { method.load_own(task, network); });
  } catch (const RunError& error) {
    fail<RefusedUpdate>("its own model cannot be tested: {}", error.what());
  }
}

ClientSurvey Federation::survey(std::size_t round, bool last) {
  const Method& method = *experiment_.method;
  const auto epochs = static_cast<std::size_t>(experiment_.settings.evaluate.integer("finetune"));
  const bool finetune = epochs > 0 && last;
  // Nobody has trained, or the run was not asked then: without a single own model there is nothing to say of them.
  const bool known = std::ranges::any_of(own_, [](const auto& result) { return result.has_value(); });
  LocalOptions local = local_;
  local.epochs = epochs;
  ClientSurvey survey{
      .shared = ClientResults(own_.size()), .own = own_, .finetuned = ClientResults(finetune ? own_.size() : 0)};
  run_jobs(workers_.size(), own_.size(), [&](std::size_t index, std::size_t client) {
    if (experiment_.federated.own_test_view(client).size() == 0) return;
    Worker& worker = *workers_[index];
    const ClientTask task = task_for(worker, *worker.model, round, client);
    survey.shared[client] = test_client(worker, task, 1, [&](std::size_t) { method.load_shared(task); });
    if (known && !survey.own[client]) {
      const bool apart = method.load_untrained(task);
      survey.own[client] = apart ? test_client(worker, task, 1, [](std::size_t) {}) : survey.shared[client];
    }
    if (!finetune || task.data.size() == 0) return;
    survey.finetuned[client] = test_client(worker, task, 1, [&](std::size_t) {
      method.load_shared(task);
      finetune_model(worker.trainer, task, local);
    });
  });
  return survey;
}

MeanPrediction Federation::nothing_predicted(const Dataset& data) const {
  const Model& model = *workers_.front()->model;
  return {model.loss(), data.size(), model.outputs()};
}

void Federation::add_network(std::span<const float> theta, const View& view, std::size_t network,
                             MeanPrediction& mean) {
  for_each_chunk(theta, view.size(), [&](Worker& worker, std::size_t begin, std::size_t end) {
    add_rows(*worker.model, view, begin, end, network, worker.evaluation, mean);
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
