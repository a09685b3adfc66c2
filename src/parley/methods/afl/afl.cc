#include "parley/methods/afl/afl.h"

#include <algorithm>
#include <limits>
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
        rate_(context.options.real("lambda_lr")) {
    for (std::size_t k = 0; k < context.sizes.size(); ++k) {
      if (context.sizes[k] > 0) holders_.push_back(k);
    }
  }

  Schema schema() const override {
    return {.channels = {{.name = "step", .layout = layout_, .weighting = Weighting::plain},
                         {.name = "loss", .count = 1, .weighting = Weighting::each, .statistic = true}}};
  }

  void start(State& state) const override {
    Flat lambda(lambdas_->size(), 0.0f);
    for (const std::size_t k : holders_) lambda[k] = 1.0f / static_cast<float>(holders_.size());
    state.add(kLambda, lambdas_, true, std::move(lambda));
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
  }

  // Of a part of the clients, drawn at random: both gradients are estimated without bias, each client that is there
  // standing for K/m. (Taking theirs for all of λ would give a cohort that λ has all but dropped a full step.)
  void server(ServerTask& task) const override {
    const double stands_for = static_cast<double>(holders_.size()) / static_cast<double>(task.sum.count());
    const auto theta = task.state.at("theta");
    FlatDouble target = task.sum.take_total("step");
    for (std::size_t i = 0; i < theta.size(); ++i) target[i] = theta[i] + stands_for * target[i];
    task.move_theta(target);
    const auto lambda = task.state.at(kLambda);
    float worst = 0.0f;
    for (const Single& single : task.sum.singles()) {
      const float loss = single["loss"][0];
      lambda[single.client] += static_cast<float>(rate_ * stands_for * loss);  // ∂/∂λ_k Σ λ_k F_k = F_k
      worst = std::max(worst, loss);
    }
    project(lambda);
    task.metrics["worst_client_loss"] = worst;
    task.metrics["largest_lambda"] = *std::ranges::max_element(lambda);
  }

 private:
  // Clients without data have no part in λ.
  void project(std::span<float> lambda) const {
    std::vector<float> held;
    for (const std::size_t k : holders_) held.push_back(lambda[k]);
    project_on_simplex(held);
    for (std::size_t i = 0; i < held.size(); ++i) lambda[holders_[i]] = held[i];
  }

  std::shared_ptr<const Layout> layout_, lambdas_;
  std::vector<std::size_t> holders_;
  double rate_;
};

}  // namespace

// Every number is lowered by a threshold and cut off at 0, so that 1 is left in all. Those that are cut off do not
// count towards the threshold, which each that is dropped raises; so whoever is dropped once stays so (Michelot 1986).
// A few passes, where sorting a million clients would cost more than their round.
void project_on_simplex(std::span<float> lambda) {
  double threshold = -std::numeric_limits<double>::infinity();
  for (std::size_t before = lambda.size() + 1;;) {
    double sum = 0.0;
    std::size_t above = 0;
    for (const float x : lambda) {
      sum += x > threshold ? x : 0.0f;
      above += x > threshold;
    }
    if (above == before) break;
    before = above;
    threshold = (sum - 1.0) / static_cast<double>(above);
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
