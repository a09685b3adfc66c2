#include "parley/engine/evaluator.h"

#include <algorithm>
#include <cassert>
#include <deque>
#include <numeric>

#include "parley/base/errors.h"
#include "parley/base/timeline.h"
#include "parley/engine/scores.h"
#include "parley/engine/statistics.h"
#include "parley/model/temperature.h"

namespace parley {
namespace {

// A network that predicts with other weights than one set of its own; it cannot be trained.
class Composed : public Model {
 public:
  explicit Composed(Model& network) : network_(network) {}

  const Layout& layout() const override { return network_.layout(); }
  std::span<float> parameters() override { return {}; }
  std::span<float> gradients() override { return {}; }
  double backward(const Batch&) override {
    assert(false && "what several weights make together is not trained");
    return 0.0;
  }
  std::size_t outputs() const override { return network_.outputs(); }
  Loss loss() const override { return network_.loss(); }

 protected:
  Model& network_;
};

// By the mean output of several weights.
class Bag final : public Composed {
 public:
  Bag(Model& network, const Members& members) : Composed(network), members_(members) { load(0); }

  void predict(const Batch& batch, std::span<float> outputs) override {
    if (members_.size() > 1) load(0);
    network_.predict(batch, outputs);
    if (members_.size() == 1) return;
    one_.resize(outputs.size());
    for (std::size_t member = 1; member < members_.size(); ++member) {
      load(member);
      network_.predict(batch, one_);
      for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] += one_[i];
    }
    for (float& output : outputs) output /= static_cast<float>(members_.size());
  }

 private:
  void load(std::size_t member) { std::ranges::copy(members_[member], network_.parameters().begin()); }

  const Members& members_;
  Flat one_;
};

// f(μ) + J·(θ − μ): the outputs of drawn weights θ to first order about the mean μ (Immer et al. 2021), from networks a
// little ahead of μ and behind it.
class Linearised final : public Composed {
 public:
  Linearised(Model& network, std::span<const float> mean, std::span<const float> drawn)
      : Composed(network), mean_(mean), drawn_(drawn) {}

  void predict(const Batch& batch, std::span<float> outputs) override {
    // Rounding of the outputs, about 1e-6 of them, is divided by this; what is bent is multiplied by its square.
    constexpr float kNear = 0.01f;
    predict_at(0.0f, batch, outputs);
    other_.resize(outputs.size());
    for (const float side : {kNear, -kNear}) {
      predict_at(side, batch, other_);
      for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] += other_[i] / (2.0f * side);
    }
  }

 private:
  void predict_at(float share, const Batch& batch, std::span<float> outputs) {
    const auto weights = network_.parameters();
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = mean_[i] + share * (drawn_[i] - mean_[i]);
    network_.predict(batch, outputs);
  }

  std::span<const float> mean_, drawn_;
  Flat other_;
};

// Leaves what was drawn in the last layer only.
void keep_last_layer(const Layout& layout, std::span<const float> mean, std::span<float> drawn) {
  const auto layers = shown_layers(layout);
  const Layer& last = layers.back();
  const Flat all(drawn.begin(), drawn.end());
  std::ranges::copy(mean, drawn.begin());
  std::ranges::copy(last.weight.of(std::span<const float>(all)), last.weight.of(drawn).begin());
  if (last.bias) std::ranges::copy(last.bias->of(std::span<const float>(all)), last.bias->of(drawn).begin());
}

std::size_t chunks_of(std::size_t rows) {
  return (rows + kEvaluationChunk - 1) / kEvaluationChunk;
}

Posterior::Draw posterior_draw(const Experiment& experiment) {
  return {.examples = static_cast<double>(experiment.examples()),
          .scale = experiment.settings.evaluate.real("posterior_scale"),
          .prior_precision = experiment.settings.evaluate.real("prior_precision")};
}

void finetune(ClientSide& side, const ClientTask& task, const LocalOptions& local) {
  try {
    side.trainer().train(task.model, task.data, local, task.lr(), task.stream("finetune"));
  } catch (const RefusedUpdate& refused) {
    fail<RunError>("evaluate.finetune: client {}: {}; lower client.lr", task.client, refused.what());
  }
}

}  // namespace

std::size_t chunks_of(const Dataset& data) {
  return chunks_of(data.size());
}

Evaluation merged(const std::vector<Evaluation>& parts) {
  Evaluation total = parts.at(0);
  for (std::size_t i = 1; i < parts.size(); ++i) total.merge(parts[i]);
  return total;
}

Evaluator::Evaluator(const Experiment& experiment, Workers& workers, const ClientStore& store)
    : experiment_(experiment),
      workers_(workers),
      store_(store),
      seed_(experiment.seed()),
      ood_rows_(experiment.ood ? experiment.ood->size() : 0),
      own_(experiment.settings.evaluate.flag("clients") ? experiment.clients() : 0) {
  std::iota(ood_rows_.begin(), ood_rows_.end(), 0u);
}

OwnData Evaluator::data_of(std::size_t client) const {
  constexpr std::size_t kLeastOod = 200;  // enough to rank against, and no more than its own data deserve
  const Federated& federated = experiment_.federated;
  OwnData data{.train = federated.partition.view(*federated.data.train, client)};
  if (!asks_clients()) return data;
  data.test = federated.own_test_view(client);
  if (experiment_.ood) {
    const auto rows = std::span(ood_rows_).first(std::min(ood_rows_.size(), std::max(kLeastOod, data.test.size())));
    data.ood = {.data = experiment_.ood.get(), .rows = rows, .permutation = data.test.permutation};
  }
  return data;
}

void Evaluator::for_each_chunk(const Members& members, std::size_t rows, std::size_t first, std::size_t last,
                               const Visit& visit) {
  workers_.run(last - first, [&](ClientSide& side, std::size_t index) {
    const Span span("predict", first + index);
    Bag bag(side.shared(), members);
    const std::size_t begin = (first + index) * kEvaluationChunk;
    visit(bag, side.buffer(), begin, std::min(begin + kEvaluationChunk, rows));
  });
}

std::vector<Evaluation> Evaluator::evaluate_chunks(const Members& members, const Dataset& data, std::size_t begin,
                                                   std::size_t end) {
  const WholeView whole(data);
  std::vector<Evaluation> parts(end - begin);
  for_each_chunk(members, data.size(), begin, end,
                 [&](Model& model, EvaluationBuffer& buffer, std::size_t from, std::size_t to) {
                   parts[from / kEvaluationChunk - begin] = parley::evaluate(model, whole.view(), from, to, buffer);
                 });
  return parts;
}

Evaluation Evaluator::evaluate(const Members& members, const Dataset& data) {
  return merged(evaluate_chunks(members, data, 0, chunks_of(data)));
}

MeanPrediction Evaluator::nothing_predicted(std::size_t rows) {
  const Model& model = workers_.front().shared();
  return {model.loss(), rows, model.outputs()};
}

void Evaluator::add_network(const Members& members, const View& view, std::size_t network, MeanPrediction& mean) {
  for_each_chunk(members, view.size(), 0, chunks_of(view.size()),
                 [&](Model& model, EvaluationBuffer& buffer, std::size_t begin, std::size_t end) {
                   add_prediction(model, view, begin, end, network, buffer, mean);
                 });
}

MeanPrediction Evaluator::predict(const Members& members, const View& view) {
  MeanPrediction mean = nothing_predicted(view.size());
  add_network(members, view, 0, mean);
  return mean;
}

MeanPrediction Evaluator::predict(const Members& members, const Dataset& data) {
  return predict(members, WholeView(data).view());
}

std::vector<MeanPrediction> Evaluator::predict(const State& state, const std::vector<const Dataset*>& sets,
                                               std::size_t round, std::size_t samples, const Posterior::Draw& how) {
  std::vector<MeanPrediction> means;
  std::deque<WholeView> views;  // stay where they are: a view points into its own
  for (const Dataset* data : sets) {
    means.push_back(nothing_predicted(data->size()));
    views.emplace_back(*data);
  }
  Flat theta(experiment_.layout->size());
  const std::string& kind = experiment_.settings.evaluate.text("posterior");
  const auto add_linearised = [&](const View& view, std::size_t sample, MeanPrediction& mean) {
    workers_.run(chunks_of(view.size()), [&](ClientSide& side, std::size_t chunk) {
      Linearised model(side.shared(), state.at("theta"), theta);
      const std::size_t begin = chunk * kEvaluationChunk;
      add_prediction(model, view, begin, std::min(begin + kEvaluationChunk, view.size()), sample, side.buffer(), mean);
    });
  };
  for (std::size_t sample = 0; sample < samples; ++sample) {
    Stream stream(seed_, "posterior", round, sample);
    experiment_.method->posterior()->draw(state, how, stream, theta);
    if (kind == "last_layer") keep_last_layer(*experiment_.layout, state.at("theta"), theta);
    for (std::size_t i = 0; i < sets.size(); ++i) {
      kind == "linearised" ? add_linearised(views[i].view(), sample, means[i])
                           : add_network({theta}, views[i].view(), sample, means[i]);
    }
  }
  return means;
}

void Evaluator::measure_tempered(const Members& members, std::map<std::string, double>& metrics) {
  const View& own = experiment_.server_examples->examples;
  const double temperature = best_temperature(predict(members, own), own);
  const Dataset& test = *experiment_.federated.data.test;
  const MeanPrediction tempered = at_temperature(predict(members, test), temperature);
  metrics["temperature"] = temperature;
  for (const auto& [name, value] : scores("tempered", parley::evaluate(tempered, WholeView(test).view()))) {
    metrics[name] = value;
  }
  if (const Dataset* ood = experiment_.ood.get()) {
    metrics["tempered_ood_auroc"] =
        auroc(doubts(at_temperature(predict(members, *ood), temperature)), doubts(tempered));
  }
}

void Evaluator::measure_doubt(const State& state, const Members& members, std::size_t round,
                              std::map<std::string, double>& metrics) {
  const Dataset& test = *experiment_.federated.data.test;
  const Dataset* ood = experiment_.ood.get();
  if (ood != nullptr) metrics["ood_auroc"] = auroc(doubts(predict(members, *ood)), doubts(predict(members, test)));
  if (experiment_.settings.evaluate.flag("temperature")) measure_tempered(members, metrics);
  const auto samples = static_cast<std::size_t>(experiment_.settings.evaluate.integer("posterior_samples"));
  if (samples == 0) return;
  std::vector<const Dataset*> sets{&test};
  if (ood != nullptr) sets.push_back(ood);
  const auto means = predict(state, sets, round, samples, posterior_draw(experiment_));
  for (const auto& [name, value] : scores("posterior", parley::evaluate(means[0], WholeView(test).view()))) {
    metrics[name] = value;
  }
  if (ood != nullptr) metrics["posterior_ood_auroc"] = auroc(doubts(means[1]), doubts(means[0]));
}

std::map<std::string, double> Evaluator::measure(const State& state, const Members& members, std::size_t round,
                                                 bool last) {
  std::map<std::string, double> metrics;
  if (experiment_.federated.data.test->size() > 0) measure_doubt(state, members, round, metrics);
  metrics.merge(compare_statistics(experiment_, state));
  if (asks_clients()) {
    const ClientSurvey found = survey(state, round, last);
    client_table_ = found.table();
    metrics.merge(found.metrics());
  }
  return metrics;
}

ClientSurvey Evaluator::survey(const State& state, std::size_t round, bool last) {
  const bool finetunes = last && experiment_.settings.evaluate.integer("finetune") > 0;
  const Broadcast broadcast(state, round);
  if (elsewhere_) {
    if (auto shared = elsewhere_(broadcast)) return {.shared = std::move(*shared), .own = own_, .finetuned = {}};
  }
  ClientSurvey survey{
      .shared = ClientResults(own_.size()), .own = own_, .finetuned = ClientResults(finetunes ? own_.size() : 0)};
  // Nobody has trained, or the run was not asked then: without a single own model there is nothing to say of them.
  const bool known = std::ranges::any_of(own_, [](const auto& result) { return result.has_value(); });
  workers_.run(own_.size(),
               [&](ClientSide& side, std::size_t client) { survey_client(side, broadcast, client, known, survey); });
  return survey;
}

void Evaluator::survey_client(ClientSide& side, const Broadcast& broadcast, std::size_t client, bool own_known,
                              ClientSurvey& survey) {
  const OwnData data = data_of(client);
  if (data.test.size() == 0) return;
  const Personal& personal = personal_of(*experiment_.method);
  ClientMemory memory(store_.load(client));
  const Invitation invitation{.broadcast = broadcast, .client = client, .cohort = 0, .seed = seed_};
  const ClientTask task = side.task(invitation, data.train, memory, side.shared());
  const auto test = [&](const std::function<void(std::size_t)>& load) {
    return test_networks(task.model, data.test, data.ood, 1, load, side.buffer());
  };
  survey.shared[client] = test([&](std::size_t) { personal.load_shared(task); });
  if (own_known && !survey.own[client]) {
    const bool apart = personal.load_untrained(task);
    survey.own[client] = apart ? test([](std::size_t) {}) : survey.shared[client];
  }
  if (survey.finetuned.empty() || data.train.size() == 0) return;
  LocalOptions local(experiment_.settings.client);
  local.epochs = static_cast<std::size_t>(experiment_.settings.evaluate.integer("finetune"));
  survey.finetuned[client] = test([&](std::size_t) {
    personal.load_shared(task);
    finetune(side, task, local);
  });
}

Json Evaluator::progress() const {
  if (!asks_clients()) return nullptr;
  return {{"own_results", to_json(own_)}};
}

void Evaluator::restore(const Json& progress) {
  if (asks_clients() && progress.contains("own_results")) own_ = results_from_json(progress.at("own_results"));
}

}  // namespace parley
