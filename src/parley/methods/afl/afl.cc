#include "parley/methods/afl/afl.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace parley {
namespace {

constexpr const char* kLambda = "lambda";

class Agnostic final : public Method {
 public:
  explicit Agnostic(const MethodContext& context)
      : layout_(context.layout),
        lambdas_(std::make_shared<const Layout>(
            std::vector<LayoutEntry>{{.name = kLambda, .shape = {static_cast<std::int64_t>(context.clients)}}})),
        rate_(context.options.real("lambda_lr")) {}

  Schema schema() const override {
    return {.channels = {{.name = "step", .layout = layout_, .weighting = Weighting::plain},
                         {.name = "loss", .count = 1, .weighting = Weighting::each, .statistic = true}},
            .scalars = {{kLambda, Weighting::plain}}};
  }

  void start(State& state) const override {
    const std::size_t clients = lambdas_->size();
    state.add(kLambda, lambdas_, true, Flat(clients, 1.0f / static_cast<float>(clients)));
  }

  void client(const ClientTask& task, Update& update) const override {
    task.load();
    const double loss = task.loss();
    task.train(update);
    const float lambda = task.broadcast.at(kLambda)[task.client];
    const auto before = task.broadcast.at("theta");
    const auto after = task.model.parameters();
    Flat& step = update["step"];
    for (std::size_t i = 0; i < after.size(); ++i) step[i] = lambda * (after[i] - before[i]);
    update["loss"][0] = static_cast<float>(loss);
    update.scalar(kLambda) = lambda;
  }

  void server(ServerTask& task) const override {
    // Of a part of the clients: as if theirs were all of λ.
    if (const double present = task.sum.scalar(kLambda); present > 0.0) {
      const auto theta = task.state.at("theta");
      FlatDouble target = task.sum.take_total("step");
      for (std::size_t i = 0; i < theta.size(); ++i) target[i] = theta[i] + target[i] / present;
      task.move_theta(target);
    }
    const auto lambda = task.state.at(kLambda);
    float worst = 0.0f;
    for (const Single& single : task.sum.singles()) {
      const float loss = single["loss"][0];
      lambda[single.client] += static_cast<float>(rate_) * loss;  // ∂/∂λ_k Σ λ_k F_k = F_k
      worst = std::max(worst, loss);
    }
    project_on_simplex(lambda);
    task.metrics["worst_client_loss"] = worst;
    task.metrics["largest_lambda"] = *std::ranges::max_element(lambda);
  }

 private:
  std::shared_ptr<const Layout> layout_, lambdas_;
  double rate_;
};

}  // namespace

void project_on_simplex(std::span<float> lambda) {
  std::vector<double> sorted(lambda.begin(), lambda.end());
  std::ranges::sort(sorted, std::greater<>());
  // The threshold that leaves a total of 1 when the largest ones are lowered by it and the rest is cut off at 0.
  double sum = 0.0, threshold = 0.0;
  for (std::size_t k = 0; k < sorted.size(); ++k) {
    sum += sorted[k];
    const double candidate = (sum - 1.0) / static_cast<double>(k + 1);
    if (sorted[k] > candidate) threshold = candidate;
  }
  for (float& x : lambda) x = static_cast<float>(std::max(0.0, x - threshold));
}

void add_afl(MethodRegistry& registry) {
  registry.add({.name = "afl",
                .summary = "Weights the clients so that the worst-off is served best: the minimax model.",
                .source = "Mohri et al. 2019",
                .options = {{"lambda_lr", 0.1, "step of the clients' weights along their losses", above(0.0)}}},
               [](const MethodContext& context) { return std::make_unique<Agnostic>(context); });
}

}  // namespace parley
