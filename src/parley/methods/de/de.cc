#include "parley/methods/de/de.h"

#include <algorithm>

#include "parley/methods/fitness.h"
#include "parley/methods/population.h"

namespace parley {
namespace {

constexpr const char* kPopulation = "population";

// A trial replaces its target when it is fitter on the same nodes: both are measured in every round, because fitness
// remembered from other nodes would favour whoever had the easier ones. Trials follow from the population and a stream
// that server and nodes share, so they are not broadcast.
class DifferentialEvolution final : public Method {
 public:
  explicit DifferentialEvolution(const MethodContext& context)
      : layout_(context.layout),
        weights_(context.layout->trainable()),
        seed_(context.seed),
        size_(static_cast<std::size_t>(context.options.integer("population"))),
        factor_(static_cast<float>(context.options.real("factor"))),
        crossover_(context.options.real("crossover")) {
    require_comparable(context.task);
  }

  // Of the population, then of the trials.
  Schema schema() const override { return fitness_schema(2 * size_); }

  void start(State& state) const override {
    state.add(kPopulation, population_layout(size_, weights_), true,
              first_generation(*layout_, state.at("theta"), size_, seed_));
  }

  void client(const ClientTask& task, Update& update) const override {
    const auto population = task.broadcast.at(kPopulation);
    measure_fitness(
        task, task.data,
        [&](std::size_t i, std::span<float> weights) {
          if (i < size_) {
            std::ranges::copy(candidate(population, i, weights_), weights.begin());
          } else {
            write_trial(population, task.round, i - size_, weights);
          }
        },
        update);
  }

  bool trains() const override { return false; }

  void server(ServerTask& task) const override {
    const FlatDouble fitness = take_fitness(task);
    const auto population = task.state.at(kPopulation);
    const Flat old(population.begin(), population.end());
    std::vector<double> survived(size_);
    for (std::size_t i = 0; i < size_; ++i) {
      const bool replaced = fitness[size_ + i] >= fitness[i];
      if (replaced) write_trial(old, task.round, i, candidate(population, i, weights_));
      survived[i] = replaced ? fitness[size_ + i] : fitness[i];
    }
    const std::size_t fittest = ranked(survived)[0];
    move_theta_to(task, candidate(population, fittest, weights_));
    task.metrics["fitness_best"] = survived[fittest];
  }

 private:
  // DE/rand/1/bin: a + F(b − c) for three others, mixed with the target weight by weight.
  void write_trial(std::span<const float> population, std::size_t round, std::size_t target,
                   std::span<float> trial) const {
    Stream stream(seed_, "trial", round, target);
    std::vector<std::size_t> others;
    while (others.size() < 3) {
      const std::size_t other = stream.below(size_);
      if (other != target && std::ranges::find(others, other) == others.end()) others.push_back(other);
    }
    const auto a = candidate(population, others[0], weights_), b = candidate(population, others[1], weights_),
               c = candidate(population, others[2], weights_), own = candidate(population, target, weights_);
    const std::size_t always = stream.below(weights_);  // so that no trial is its target
    for (std::size_t j = 0; j < weights_; ++j) {
      const bool changes = stream.uniform() < crossover_ || j == always;
      trial[j] = changes ? a[j] + factor_ * (b[j] - c[j]) : own[j];
    }
  }

  std::shared_ptr<const Layout> layout_;
  std::size_t weights_;  // of a candidate
  std::uint64_t seed_;
  std::size_t size_;
  float factor_;
  double crossover_;
};

}  // namespace

void add_de(MethodRegistry& registry) {
  registry.add({.name = "de",
                .summary = "Differential evolution: every model is challenged by another plus a difference of two.",
                .source = "Storn & Price 1997",
                .options = {{"population", std::int64_t{20}, "models that are kept", at_least(4)},
                            {"factor", 0.5, "F, on the difference of two models",
                             Range{.low = 0, .high = 2, .low_excluded = true}},
                            {"crossover", 0.9, "CR, chance that a weight comes from the challenge", between(0, 1)}}},
               [](const MethodContext& context) { return std::make_unique<DifferentialEvolution>(context); });
}

}  // namespace parley
