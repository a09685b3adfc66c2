#include "parley/methods/openes/openes.h"

#include <algorithm>

#include "parley/methods/fitness.h"

namespace parley {
namespace {

// Ranks from −½ (least fit) to ½ (fittest); equals share theirs, so that a plateau gives no direction.
std::vector<double> centred_ranks(std::span<const double> fitness) {
  const auto order = ranked(fitness);
  const auto last = static_cast<double>(order.size() - 1);
  std::vector<double> ranks(order.size());
  for (std::size_t begin = 0, end; begin < order.size(); begin = end) {
    end = begin + 1;
    while (end < order.size() && fitness[order[end]] == fitness[order[begin]]) ++end;
    const double middle = static_cast<double>(begin + end - 1) / 2.0;
    for (std::size_t i = begin; i < end; ++i) ranks[order[i]] = 0.5 - middle / last;
  }
  return ranks;
}

class OpenEs final : public Method {
 public:
  explicit OpenEs(const MethodContext& context)
      : weights_(context.layout->trainable()),
        seed_(context.seed),
        pairs_(static_cast<std::size_t>(context.options.integer("pairs"))),
        sigma_(context.options.real("sigma")),
        lr_(context.options.real("lr")) {
    require_comparable(context.task);
  }

  // Candidates 2k and 2k + 1 are θ + σε_k and θ − σε_k: what both have in common cancels.
  Schema schema() const override { return fitness_schema(2 * pairs_); }

  void client(const ClientTask& task, Update& update) const override {
    const auto theta = task.broadcast.at("theta");
    const auto sigma = static_cast<float>(sigma_);
    Flat noise(weights_);
    measure_fitness(
        task, task.data,
        [&](std::size_t i, std::span<float> weights) {
          if (i % 2 == 0) draw_noise(task.round, i / 2, noise);
          const float side = i % 2 == 0 ? sigma : -sigma;
          for (std::size_t j = 0; j < weights_; ++j) weights[j] = theta[j] + side * noise[j];
        },
        update);
  }

  bool trains() const override { return false; }

  // θ + lr·1/(Pσ)·Σ u_i ε_i (Salimans et al. 2017, alg. 2), with the ranks u of the P candidates.
  void server(ServerTask& task) const override {
    const FlatDouble fitness = take_fitness(task);
    const auto ranks = centred_ranks(fitness);
    const auto theta = task.state.at("theta");
    std::vector<double> target(theta.begin(), theta.end());
    const double scale = lr_ / (static_cast<double>(ranks.size()) * sigma_);
    Flat noise(weights_);
    for (std::size_t k = 0; k < pairs_; ++k) {
      draw_noise(task.round, k, noise);
      const double pull = scale * (ranks[2 * k] - ranks[2 * k + 1]);
      for (std::size_t j = 0; j < weights_; ++j) target[j] += pull * noise[j];
    }
    task.move_theta(target);
    task.metrics["fitness_best"] = std::ranges::max(fitness);
  }

 private:
  // ε_k, the same on nodes and server.
  void draw_noise(std::size_t round, std::size_t pair, std::span<float> noise) const {
    Stream stream(seed_, "noise", round, pair);
    for (float& e : noise) e = static_cast<float>(stream.normal());
  }

  std::size_t weights_;
  std::uint64_t seed_;
  std::size_t pairs_;
  double sigma_, lr_;
};

}  // namespace

void add_openes(MethodRegistry& registry) {
  registry.add({.name = "openes",
                .summary = "Evolution strategies with shared seeds: scalars up, theta down, for larger networks.",
                .source = "Salimans et al. 2017",
                .options = {{"pairs", std::int64_t{25}, "of opposite candidates in a round", at_least(1)},
                            {"sigma", 0.1, "standard deviation of a candidate's weights around theta", above(0)},
                            {"lr", 0.02, "length of the step; with server.step = \"adam\" see server.lr", above(0)}}},
               [](const MethodContext& context) { return std::make_unique<OpenEs>(context); });
}

}  // namespace parley
