#include "parley/engine/peer/workers.h"

#include <algorithm>
#include <cassert>

#include "parley/base/pool.h"

namespace parley {
namespace {

// Several weights of one network that predict together; it cannot be trained.
class Bag final : public Model {
 public:
  Bag(Model& network, const std::vector<std::span<const float>>& members) : network_(network), members_(members) {}

  const Layout& layout() const override { return network_.layout(); }
  std::span<float> parameters() override { return {}; }
  std::span<float> gradients() override { return {}; }
  double backward(const Batch&) override {
    assert(false && "a bag of models is not trained");
    return 0.0;
  }
  void predict(const Batch& batch, std::span<float> outputs) override {
    load(0);
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
  std::size_t outputs() const override { return network_.outputs(); }
  Loss loss() const override { return network_.loss(); }

 private:
  void load(std::size_t member) { std::ranges::copy(members_[member], network_.parameters().begin()); }

  Model& network_;
  const std::vector<std::span<const float>>& members_;
  Flat one_;
};

}  // namespace

PeerWorker::PeerWorker(const Experiment& experiment)
    : trainer(experiment.make_optimizer(experiment.settings.client)), experiment_(experiment) {}

Model& PeerWorker::model(std::size_t thinning) {
  Options options = experiment_.settings.model;
  const bool drops = options.has("dropout") && options.real("dropout") > 0.0;
  auto& model = models_[drops ? thinning : 1];
  if (!model) {
    if (drops) options.set("dropout", options.real("dropout") / static_cast<double>(thinning));
    model = experiment_.make_model(options, experiment_.task);
  }
  return *model;
}

PeerWorkers::PeerWorkers(const Experiment& experiment, std::size_t threads) {
  do {
    workers_.push_back(std::make_unique<PeerWorker>(experiment));
  } while (workers_.size() < threads && !workers_.front()->model().exclusive());
}

void PeerWorkers::run(std::size_t count, const std::function<void(PeerWorker& worker, std::size_t index)>& job) {
  run_jobs(workers_.size(), count, [&](std::size_t worker, std::size_t index) { job(*workers_[worker], index); });
}

Evaluation PeerWorkers::evaluate(const std::vector<std::span<const float>>& members, const Dataset& data) {
  const WholeView whole(data);
  std::vector<Evaluation> parts((data.size() + kEvaluationChunk - 1) / kEvaluationChunk);
  run(parts.size(), [&](PeerWorker& worker, std::size_t chunk) {
    Bag bag(worker.model(), members);
    const std::size_t begin = chunk * kEvaluationChunk;
    parts[chunk] =
        parley::evaluate(bag, whole.view(), begin, std::min(begin + kEvaluationChunk, data.size()), worker.evaluation);
  });
  Evaluation total = parts.at(0);
  for (std::size_t i = 1; i < parts.size(); ++i) total.merge(parts[i]);  // in order
  return total;
}

}  // namespace parley
