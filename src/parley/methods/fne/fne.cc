#include "parley/methods/fne/fne.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "parley/base/errors.h"
#include "parley/methods/fitness.h"
#include "parley/methods/fne/breeding.h"
#include "parley/methods/population.h"
#include "parley/model/evaluation.h"

namespace parley {
namespace {

constexpr const char* kPopulation = "population";
constexpr const char* kHistory = "validation";  // of the last generations' fittest, a ring
constexpr const char* kBoost = "fne_boost";     // on the mutation, while it is stuck
constexpr const char* kBest = "fne_best";       // validation of theta, with patience
constexpr const char* kSince = "fne_since";     // generations since that was beaten
constexpr float kNeverMeasured = std::numeric_limits<float>::lowest();

enum class EvaluationSet { random_subset, moving_window, single_sample };

Crossover::Kind crossover_of(const std::string& name) {
  using enum Crossover::Kind;
  return name == "halving" ? halving : name == "interleave" ? interleave : name == "mean" ? mean : kernelwise;
}

Mutation::Kind mutation_of(const std::string& name) {
  using enum Mutation::Kind;
  return name == "multiply" ? multiply : name == "offset" ? offset : mixture;
}

EvaluationSet evaluation_set_of(const std::string& name) {
  using enum EvaluationSet;
  return name == "single_sample" ? single_sample : name == "moving_window" ? moving_window : random_subset;
}

struct FneOptions {
  std::size_t population, parents, elites;
  EvaluationSet evaluation;
  std::size_t move_every;
  std::size_t escape_window;
  double escape_growth, escape_limit, escape_tolerance;
  std::size_t patience;

  explicit FneOptions(const Options& options)
      : population(static_cast<std::size_t>(options.integer("population"))),
        parents(static_cast<std::size_t>(options.integer("parents"))),
        elites(static_cast<std::size_t>(options.integer("elites"))),
        evaluation(evaluation_set_of(options.text("evaluation"))),
        move_every(static_cast<std::size_t>(options.integer("move_every"))),
        escape_window(static_cast<std::size_t>(options.integer("escape_window"))),
        escape_growth(options.real("escape_growth")),
        escape_limit(options.real("escape_limit")),
        escape_tolerance(options.real("escape_tolerance")),
        patience(static_cast<std::size_t>(options.integer("patience"))) {
    if (parents > population) {
      fail(
          "method.parents = {}: there are only {} individuals to choose them from; raise method.population or lower "
          "this",
          parents, population);
    }
    if (elites >= population) {
      fail(
          "method.elites = {}: no place is left for a child in a population of {}; raise method.population or lower "
          "this",
          elites, population);
    }
  }
};

// Escape and patience ask whether the fittest have become better, on the server's own examples: their accuracy, or
// minus their loss where there are no classes. Fitness cannot tell, since every generation is measured by other nodes:
// it never repeats. A server without examples breeds without the two.
class Fne final : public Method, private CohortRule {
 public:
  explicit Fne(const MethodContext& context)
      : layout_(context.layout),
        weights_(context.layout->trainable()),
        outputs_(context.task.outputs),
        regression_(context.task.loss == Loss::mse),
        seed_(context.seed),
        options_(context.options),
        crossover_(crossover_of(context.options.text("crossover")), *context.layout),
        mutation_(mutation_of(context.options.text("mutation")), context.options.real("chance"),
                  context.options.real("rate"), context.options.real("offset")) {
    require_comparable(context.task);
    if (options_.patience > 0 && context.server.integer("examples") == 0) {
      fail(
          "server.examples = 0: method.patience = {} judges each generation on examples that the server holds itself; "
          "set for example 200",
          options_.patience);
    }
  }

  Schema schema() const override { return fitness_schema(options_.population); }

  void start(State& state) const override {
    state.add(kPopulation, population_layout(options_.population, weights_), true,
              first_generation(*layout_, state.at("theta"), options_.population, seed_));
    const auto window = static_cast<std::int64_t>(options_.escape_window);
    state.add(kHistory,
              std::make_shared<const Layout>(std::vector<LayoutEntry>{{.name = "fitness", .shape = {window}}}), false,
              Flat(options_.escape_window, kNeverMeasured));
    state.add_scalar(kBoost, false, 1.0);
    state.add_scalar(kBest, false, kNeverMeasured);
    state.add_scalar(kSince, false, 0.0);
  }

  const CohortRule* cohort_rule() const override { return this; }

  void client(const ClientTask& task, Update& update) const override {
    View data = task.data;
    if (options_.evaluation == EvaluationSet::single_sample) {
      data.rows = data.rows.subspan(task.stream("sample").below(data.size()), 1);
    }
    const auto population = task.broadcast.at(kPopulation);
    measure_fitness(
        task, data,
        [&](std::size_t i, std::span<float> weights) {
          std::ranges::copy(candidate(population, i, weights_), weights.begin());
        },
        update);
  }

  bool trains() const override { return false; }

  void server(ServerTask& task) const override {
    const FlatDouble fitness = take_fitness(task);
    const auto order = ranked(fitness);
    task.metrics["fitness_best"] = fitness[order[0]];
    // Fitness sums over the outputs.
    if (regression_) task.metrics["nmse"] = fitness[order[0]] / static_cast<double>(outputs_);
    if (task.own == nullptr) {
      move_theta_to(task, fittest(task.state, order));
    } else {
      const double validation = validate(*task.own, task.state.at("theta"), fittest(task.state, order));
      task.metrics["validation"] = validation;
      if (!stopped(task.state)) save(task, validation, fittest(task.state, order));
      task.finished = stopped(task.state);
      if (task.finished) return;
      escape(task.state, task.round, validation);
    }
    task.metrics["mutation_boost"] = task.state.scalar(kBoost);
    breed(task.state, task.round, order);
  }

 private:
  std::vector<std::size_t> cohort(const CohortTask& task) const override;
  bool stopped(const State& state) const {
    return options_.patience > 0 && state.scalar(kSince) >= static_cast<double>(options_.patience);
  }
  std::span<const float> fittest(const State& state, std::span<const std::size_t> order) const {
    return candidate(state.at(kPopulation), order[0], weights_);
  }
  double validate(const ServerExamples& own, std::span<const float> theta, std::span<const float> fittest) const;
  void save(ServerTask& task, double validation, std::span<const float> fittest) const;
  void escape(State& state, std::size_t round, double validation) const;
  void breed(State& state, std::size_t round, std::span<const std::size_t> order) const;

  std::shared_ptr<const Layout> layout_;
  std::size_t weights_;  // of an individual
  std::size_t outputs_;
  bool regression_;
  std::uint64_t seed_;
  FneOptions options_;
  Crossover crossover_;
  Mutation mutation_;
};

std::vector<std::size_t> Fne::cohort(const CohortTask& task) const {
  const auto& holders = task.holders;
  if (options_.evaluation == EvaluationSet::random_subset) return draw_at_random(task);
  if (options_.evaluation == EvaluationSet::single_sample) {
    return {holders[Stream(task.seed, "evaluating node", task.round).below(holders.size())]};
  }
  const std::size_t first = (task.round - 1) / options_.move_every;
  std::vector<std::size_t> window;
  for (std::size_t i = 0; i < task.wanted; ++i) window.push_back(holders[(first + i) % holders.size()]);
  return window;
}

// What is not trained is theta's, as for the nodes.
double Fne::validate(const ServerExamples& own, std::span<const float> theta, std::span<const float> fittest) const {
  const auto model = own.new_model();
  std::ranges::copy(theta, model->parameters().begin());
  std::ranges::copy(fittest, model->parameters().begin());
  const Evaluation result = evaluate(*model, own.examples);
  return result.classified() ? result.accuracy() : -result.loss();
}

// Theta is the fittest of each generation; with patience, the best so far by its validation.
void Fne::save(ServerTask& task, double validation, std::span<const float> fittest) const {
  if (options_.patience == 0) return move_theta_to(task, fittest);
  if (validation > task.state.scalar(kBest)) {
    move_theta_to(task, fittest);
    task.state.scalar(kBest) = validation;
    task.state.scalar(kSince) = 0.0;
  } else {
    task.state.scalar(kSince) += 1.0;
  }
}

// A validation that repeats one of the last generations' is taken for a critical point: mutations grow until it is
// left.
void Fne::escape(State& state, std::size_t round, double validation) const {
  const auto history = state.at(kHistory);
  const double near = options_.escape_tolerance * std::abs(validation);
  const bool repeats =
      std::ranges::any_of(history, [&](float earlier) { return std::abs(validation - earlier) <= near; });
  double& boost = state.scalar(kBoost);
  boost = repeats ? std::min(boost * options_.escape_growth, options_.escape_limit) : 1.0;
  history[(round - 1) % history.size()] = static_cast<float>(validation);
}

void Fne::breed(State& state, std::size_t round, std::span<const std::size_t> order) const {
  const auto next = state.at(kPopulation);
  const Flat old(next.begin(), next.end());
  const auto ancestor = [&](std::size_t i) { return candidate(std::span(old), i, weights_); };

  Stream selection(seed_, "selection", round);
  const std::size_t n = options_.parents;
  std::vector<std::size_t> parents(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n - 1));
  parents.push_back(order[n - 1 + selection.below(order.size() - (n - 1))]);  // one of the others, for variance

  const double boost = state.scalar(kBoost);
  for (std::size_t i = 0; i < options_.population; ++i) {
    const auto child = candidate(next, i, weights_);
    if (i < options_.elites) {
      std::ranges::copy(ancestor(order[i]), child.begin());
      continue;
    }
    const std::size_t a = selection.below(n), b = (a + 1 + selection.below(n - 1)) % n;
    Stream stream(seed_, "child", round, i);
    crossover_.cross(ancestor(parents[a]), ancestor(parents[b]), stream, child);
    mutation_.mutate(boost, stream, child);
  }
}

}  // namespace

void add_fne(MethodRegistry& registry) {
  registry.add(
      {.name = "fne",
       .summary = "Federated neuroevolution: the server breeds models, nodes answer with their fitness alone.",
       .source = "Thesis 002, ch. 5",
       .options =
           {{"population", std::int64_t{50}, "individuals of a generation", at_least(2)},
            {"parents", std::int64_t{10}, "the fittest but one, and one of the others", at_least(2)},
            {"elites", std::int64_t{1}, "the fittest, which live on as they are", at_least(1)},
            {"crossover",
             std::string("kernelwise"),
             "how two parents are mixed; kernelwise keeps a kernel's position or a unit's inputs together",
             {},
             {"halving", "interleave", "mean", "kernelwise"}},
            {"mutation",
             std::string("mixture"),
             "multiply by 1 ± rate %, add ± offset, or both by turns; multiply alone never changes a sign",
             {},
             {"multiply", "offset", "mixture"}},
            {"chance", 0.05, "chance that a weight mutates", between(0, 1)},
            {"rate", 20.0, "per cent, of a mutation that multiplies", at_least(0)},
            {"offset", 0.1, "largest, of a mutation that adds", at_least(0)},
            {"evaluation",
             std::string("random_subset"),
             "who measures fitness: server.participation of the nodes at random, as many in a moving window, or one "
             "example of one node",
             {},
             {"random_subset", "moving_window", "single_sample"}},
            {"move_every", std::int64_t{1}, "generations before the moving window moves on by one node", at_least(1)},
            {"escape_window", std::int64_t{10},
             "generations that a repeated validation (on server.examples) is looked for in", at_least(1)},
            {"escape_growth", 1.2, "factor on chance, rate and offset for each generation that repeats", at_least(1)},
            {"escape_limit", 10.0, "its largest product; 1 switches the escape off", at_least(1)},
            {"escape_tolerance", 1e-4, "relative difference below which a validation counts as repeated", at_least(0)},
            {"patience", std::int64_t{0},
             "stop after so many generations without a better validation (on server.examples), with the best; 0 goes "
             "on "
             "with each generation's fittest",
             at_least(0)}}},
      [](const MethodContext& context) { return std::make_unique<Fne>(context); });
}

}  // namespace parley
