#include "parley/engine/client_results.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "parley/engine/scores.h"

namespace parley {
namespace {

Json to_json(const Evaluation& evaluation) {
  Json bins = Json::array();
  for (const auto& bin : evaluation.bins) bins.push_back({bin.count, bin.confidence, bin.correct});
  Json targets = Json::array();
  for (const auto& of : evaluation.targets) {
    targets.push_back({of.absolute, of.squares, of.sum, of.sum_squares, of.unit});
  }
  return {{"examples", evaluation.examples},
          {"loss_sum", evaluation.loss_sum},
          {"correct", evaluation.correct},
          {"brier_sum", evaluation.brier_sum},
          {"covered", evaluation.covered},
          {"set_sizes", evaluation.set_sizes},
          {"class_total", evaluation.class_total},
          {"class_correct", evaluation.class_correct},
          {"bins", bins},
          {"targets", targets}};
}

Evaluation evaluation_from_json(const Json& json) {
  Evaluation evaluation;
  json.at("examples").get_to(evaluation.examples);
  json.at("loss_sum").get_to(evaluation.loss_sum);
  json.at("correct").get_to(evaluation.correct);
  json.at("brier_sum").get_to(evaluation.brier_sum);
  evaluation.covered = json.value("covered", std::size_t{0});  // runs begun before November 2026 have neither
  evaluation.set_sizes = json.value("set_sizes", std::size_t{0});
  json.at("class_total").get_to(evaluation.class_total);
  json.at("class_correct").get_to(evaluation.class_correct);
  for (std::size_t i = 0; i < Evaluation::kBins; ++i) {
    const Json& bin = json.at("bins").at(i);
    evaluation.bins[i] = {.count = bin.at(0), .confidence = bin.at(1), .correct = bin.at(2)};
  }
  for (const Json& of : json.value("targets", Json::array())) {  // runs begun before November 2026 have none
    evaluation.targets.push_back(
        {.absolute = of.at(0), .squares = of.at(1), .sum = of.at(2), .sum_squares = of.at(3), .unit = of.at(4)});
  }
  return evaluation;
}

// All clients' examples together, so that each counts by its test size.
void add_pooled(std::map<std::string, double>& metrics, const std::string& prefix, const ClientResults& results) {
  std::optional<Evaluation> all;
  double auroc = 0.0, auroc_examples = 0.0;
  for (const auto& result : results) {
    if (!result) continue;
    all ? all->merge(result->evaluation) : void(all = result->evaluation);
    if (!result->ood_auroc) continue;
    const auto examples = static_cast<double>(result->evaluation.examples);
    auroc += *result->ood_auroc * examples;
    auroc_examples += examples;
  }
  if (!all) return;
  for (const auto& [name, value] : scores(prefix, *all)) metrics[name] = value;
  if (auroc_examples > 0.0) metrics[prefix + "_ood_auroc"] = auroc / auroc_examples;
}

void add_to_row(Json& row, const std::string& prefix, const ClientResults& results, std::size_t client) {
  if (client >= results.size() || !results[client]) return;
  const Evaluation& evaluation = results[client]->evaluation;
  row[prefix + "_loss"] = evaluation.loss();
  if (evaluation.classified()) row[prefix + "_accuracy"] = evaluation.accuracy();
}

// What the model, as network number `network`, predicts for all rows of the view.
void add_view(Model& model, const View& view, std::size_t network, EvaluationBuffer& buffer, MeanPrediction& mean) {
  for (std::size_t begin = 0; begin < view.size(); begin += kEvaluationChunk) {
    add_prediction(model, view, begin, std::min(begin + kEvaluationChunk, view.size()), network, buffer, mean);
  }
}

// The standard deviation over clients of how the model did at each; nothing for fewer than two.
std::optional<double> spread(const ClientResults& results) {
  std::vector<double> values;
  for (const auto& result : results) {
    if (!result) continue;
    values.push_back(result->evaluation.classified() ? result->evaluation.accuracy() : result->evaluation.loss());
  }
  if (values.size() < 2) return {};
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0.0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / count);
}

bool worse(const Evaluation& after, const Evaluation& before) {
  return after.classified() ? after.correct < before.correct : after.loss_sum > before.loss_sum;
}

}  // namespace

void add_prediction(Model& model, const View& view, std::size_t begin, std::size_t end, std::size_t network,
                    EvaluationBuffer& buffer, MeanPrediction& mean) {
  buffer.outputs.resize((end - begin) * mean.width());
  model.predict(buffer.batch.gather_range(view, begin, end), buffer.outputs);
  mean.add(network, begin, buffer.outputs);
}

ClientResult test_networks(Model& model, const View& own, const View& ood, std::size_t networks,
                           const std::function<void(std::size_t)>& load, EvaluationBuffer& buffer) {
  MeanPrediction mean(model.loss(), own.size(), model.outputs());
  MeanPrediction ood_mean(model.loss(), ood.size(), model.outputs());
  for (std::size_t network = 0; network < networks; ++network) {
    load(network);
    add_view(model, own, network, buffer, mean);
    add_view(model, ood, network, buffer, ood_mean);
  }
  ClientResult result{.evaluation = evaluate(mean, own), .ood_auroc = {}};
  if (ood.size() > 0) result.ood_auroc = auroc(doubts(ood_mean), doubts(mean));
  return result;
}

Json to_json(const ClientResults& results) {
  Json json = Json::array();
  for (const auto& result : results) {
    if (!result) {
      json.push_back(nullptr);
      continue;
    }
    Json& entry = json.emplace_back(to_json(result->evaluation));
    if (result->ood_auroc) entry["ood_auroc"] = *result->ood_auroc;
  }
  return json;
}

ClientResults results_from_json(const Json& json) {
  ClientResults results;
  for (const auto& entry : json) {
    auto& result = results.emplace_back();
    if (entry.is_null()) continue;
    result = ClientResult{.evaluation = evaluation_from_json(entry), .ood_auroc = {}};
    if (entry.contains("ood_auroc")) result->ood_auroc = entry.at("ood_auroc").get<double>();
  }
  return results;
}

std::map<std::string, double> ClientSurvey::metrics() const {
  std::map<std::string, double> metrics;
  add_pooled(metrics, "s", shared);
  add_pooled(metrics, "mt", own);
  add_pooled(metrics, "finetune", finetuned);
  if (const auto deviation = spread(shared)) metrics["s_spread"] = *deviation;
  std::size_t compared = 0, lost = 0;
  for (std::size_t k = 0; k < finetuned.size(); ++k) {
    if (!finetuned[k] || !shared[k]) continue;
    ++compared;
    if (worse(finetuned[k]->evaluation, shared[k]->evaluation)) ++lost;
  }
  if (compared > 0) metrics["finetune_worse"] = static_cast<double>(lost) / static_cast<double>(compared);
  return metrics;
}

Json ClientSurvey::table() const {
  Json rows = Json::array();
  for (std::size_t k = 0; k < shared.size(); ++k) {
    if (!shared[k]) continue;
    Json row = {{"client", k}, {"test_examples", shared[k]->evaluation.examples}};
    add_to_row(row, "s", shared, k);
    add_to_row(row, "mt", own, k);
    add_to_row(row, "finetune", finetuned, k);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace parley
