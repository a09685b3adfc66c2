#include "parley/methods/pso/pso.h"

#include <algorithm>

#include "parley/methods/fitness.h"
#include "parley/methods/population.h"

namespace parley {
namespace {

constexpr const char* kPositions = "positions";
constexpr const char* kBests = "bests";  // where each particle was fittest
constexpr const char* kVelocities = "velocities";

// A particle's best place is measured again in every round, on the same nodes as where it is now: fitness remembered
// from other nodes would favour whoever had the easier ones.
class ParticleSwarm final : public Method {
 public:
  explicit ParticleSwarm(const MethodContext& context)
      : layout_(context.layout),
        weights_(context.layout->trainable()),
        seed_(context.seed),
        size_(static_cast<std::size_t>(context.options.integer("population"))),
        inertia_(context.options.real("inertia")),
        own_(context.options.real("own")),
        swarm_(context.options.real("swarm")) {
    require_comparable(context.task);
  }

  // Of the positions, then of the bests.
  Schema schema() const override { return fitness_schema(2 * size_); }

  void start(State& state) const override {
    const auto layout = population_layout(size_, weights_);
    const Flat first = first_generation(*layout_, state.at("theta"), size_, seed_);
    state.add(kPositions, layout, true, first);
    state.add(kBests, layout, true, first);
    state.add(kVelocities, layout, false, Flat(layout->size(), 0.0f));
  }

  void client(const ClientTask& task, Update& update) const override {
    const auto positions = task.broadcast.at(kPositions), bests = task.broadcast.at(kBests);
    measure_fitness(
        task, task.data,
        [&](std::size_t i, std::span<float> weights) {
          const auto from = i < size_ ? candidate(positions, i, weights_) : candidate(bests, i - size_, weights_);
          std::ranges::copy(from, weights.begin());
        },
        update);
  }

  bool trains() const override { return false; }

  void server(ServerTask& task) const override {
    const FlatDouble fitness = take_fitness(task);
    const auto positions = task.state.at(kPositions), bests = task.state.at(kBests);
    std::vector<double> best_fitness(fitness.begin() + static_cast<std::ptrdiff_t>(size_), fitness.end());
    for (std::size_t i = 0; i < size_; ++i) {
      if (fitness[i] <= best_fitness[i]) continue;
      std::ranges::copy(candidate(positions, i, weights_), candidate(bests, i, weights_).begin());
      best_fitness[i] = fitness[i];
    }
    const std::size_t leader = ranked(best_fitness)[0];
    for (std::size_t i = 0; i < size_; ++i) fly(task.state, task.round, i, leader);
    move_theta_to(task, candidate(bests, leader, weights_));
    task.metrics["fitness_best"] = best_fitness[leader];
  }

 private:
  // v ← w·v + c₁r₁(own best − x) + c₂r₂(swarm's best − x); x ← x + v
  void fly(State& state, std::size_t round, std::size_t particle, std::size_t leader) const {
    const auto bests = state.at(kBests);
    const auto x = candidate(state.at(kPositions), particle, weights_),
               v = candidate(state.at(kVelocities), particle, weights_), best = candidate(bests, particle, weights_),
               global = candidate(bests, leader, weights_);
    Stream stream(seed_, "flight", round, particle);
    for (std::size_t j = 0; j < weights_; ++j) {
      const double to_own = own_ * stream.uniform() * (best[j] - x[j]);
      const double to_global = swarm_ * stream.uniform() * (global[j] - x[j]);
      v[j] = static_cast<float>(inertia_ * v[j] + to_own + to_global);
      x[j] += v[j];
    }
  }

  std::shared_ptr<const Layout> layout_;
  std::size_t weights_;  // of a particle
  std::uint64_t seed_;
  std::size_t size_;
  double inertia_, own_, swarm_;
};

}  // namespace

void add_pso(MethodRegistry& registry) {
  registry.add({.name = "pso",
                .summary = "A particle swarm: models fly towards their own best place and the swarm's.",
                .source = "Kennedy & Eberhart 1995; Clerc & Kennedy 2002",
                .options = {{"population", std::int64_t{20}, "particles", at_least(2)},
                            {"inertia", 0.7298, "share of its velocity that a particle keeps", between(0, 1)},
                            {"own", 1.49618, "pull of its own best place", at_least(0)},
                            {"swarm", 1.49618, "pull of the swarm's best place", at_least(0)}}},
               [](const MethodContext& context) { return std::make_unique<ParticleSwarm>(context); });
}

}  // namespace parley
