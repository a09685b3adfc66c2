#include "parley/methods/cmaes/cmaes.h"

#include <algorithm>
#include <cmath>

#include "parley/base/errors.h"
#include "parley/methods/fitness.h"

namespace parley {
namespace {

constexpr const char* kVariance = "variance";     // C, diagonal
constexpr const char* kStepPath = "step_path";    // p_σ
constexpr const char* kShapePath = "shape_path";  // p_c
constexpr const char* kStepSize = "cmaes_sigma";  // σ
constexpr std::size_t kFewest = 4;

// The strategy's constants (Hansen 2016, table 1), with the separable variant's faster learning of C.
struct Strategy {
  std::vector<double> weights;  // of the fittest half, in order; they sum to 1
  double mu_eff;
  double c_sigma, d_sigma, c_c, c_1, c_mu;
  double chi;  // E‖N(0, I)‖

  Strategy(std::size_t candidates, std::size_t dimensions) {
    const std::size_t mu = candidates / 2;
    double sum = 0.0, squares = 0.0;
    for (std::size_t i = 0; i < mu; ++i) {
      weights.push_back(std::log(static_cast<double>(candidates + 1) / 2.0) - std::log(static_cast<double>(i + 1)));
      sum += weights.back();
    }
    for (double& w : weights) {
      w /= sum;
      squares += w * w;
    }
    mu_eff = 1.0 / squares;
    const auto n = static_cast<double>(dimensions);
    c_sigma = (mu_eff + 2.0) / (n + mu_eff + 5.0);
    d_sigma = 1.0 + 2.0 * std::max(0.0, std::sqrt((mu_eff - 1.0) / (n + 1.0)) - 1.0) + c_sigma;
    c_c = (4.0 + mu_eff / n) / (n + 4.0 + 2.0 * mu_eff / n);
    const double faster = (n + 2.0) / 3.0;  // Ros & Hansen 2008, §3: n variances to learn, not n²/2
    c_1 = std::min(1.0, faster * 2.0 / ((n + 1.3) * (n + 1.3) + mu_eff));
    c_mu = std::min(1.0 - c_1, faster * 2.0 * (mu_eff - 2.0 + 1.0 / mu_eff) / ((n + 2.0) * (n + 2.0) + mu_eff));
    chi = std::sqrt(n) * (1.0 - 1.0 / (4.0 * n) + 1.0 / (21.0 * n * n));
  }
};

std::size_t candidates_of(const Options& options, std::size_t dimensions) {
  const auto asked = static_cast<std::size_t>(options.integer("population"));
  if (asked == 0) return 4 + static_cast<std::size_t>(3.0 * std::log(static_cast<double>(dimensions)));
  if (asked < kFewest) {
    fail("method.population = {}: the fitter half must be two candidates or more; use at least {}, or 0 for 4 + 3·ln d",
         asked, kFewest);
  }
  return asked;
}

double norm(std::span<const float> x) {
  double squares = 0.0;
  for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(squares);
}

class CmaEs final : public Method {
 public:
  explicit CmaEs(const MethodContext& context)
      : layout_(context.layout),
        weights_(context.layout->trainable()),
        seed_(context.seed),
        sigma_(context.options.real("sigma")),
        candidates_(candidates_of(context.options, weights_)),
        strategy_(candidates_, weights_) {
    require_comparable(context.task);
  }

  Schema schema() const override { return fitness_schema(candidates_); }

  // Theta is the mean.
  void start(State& state) const override {
    state.add(kVariance, layout_, true, Flat(layout_->size(), 1.0f));
    state.add(kStepPath, layout_, false, Flat(layout_->size(), 0.0f));
    state.add(kShapePath, layout_, false, Flat(layout_->size(), 0.0f));
    state.add_scalar(kStepSize, true, sigma_);
  }

  void client(const ClientTask& task, Update& update) const override {
    const auto mean = task.broadcast.at("theta"), variance = task.broadcast.at(kVariance);
    const double sigma = task.broadcast.scalar(kStepSize);
    measure_fitness(
        task, task.data,
        [&](std::size_t i, std::span<float> weights) {
          Stream stream = noise(task.round, i);
          for (std::size_t j = 0; j < weights_; ++j) {
            weights[j] = static_cast<float>(mean[j] + sigma * std::sqrt(variance[j]) * stream.normal());
          }
        },
        update);
  }

  bool trains() const override { return false; }

  void server(ServerTask& task) const override;

 private:
  // z of a candidate, the same on nodes and server.
  Stream noise(std::size_t round, std::size_t candidate) const { return Stream(seed_, "candidate", round, candidate); }
  void adapt(ServerTask& task, std::span<const double> z_mean, std::span<const double> z_square) const;

  std::shared_ptr<const Layout> layout_;
  std::size_t weights_;
  std::uint64_t seed_;
  double sigma_;
  std::size_t candidates_;
  Strategy strategy_;
};

void CmaEs::server(ServerTask& task) const {
  const FlatDouble fitness = take_fitness(task);
  const auto order = ranked(fitness);
  std::vector<double> z_mean(weights_, 0.0), z_square(weights_, 0.0);
  for (std::size_t rank = 0; rank < strategy_.weights.size(); ++rank) {
    Stream stream = noise(task.round, order[rank]);
    for (std::size_t j = 0; j < weights_; ++j) {
      const double z = stream.normal();
      z_mean[j] += strategy_.weights[rank] * z;
      z_square[j] += strategy_.weights[rank] * z * z;
    }
  }
  const auto theta = task.state.at("theta"), variance = task.state.at(kVariance);
  const double sigma = task.state.scalar(kStepSize);
  std::vector<double> target(theta.begin(), theta.end());
  for (std::size_t j = 0; j < weights_; ++j) target[j] += sigma * std::sqrt(variance[j]) * z_mean[j];
  task.move_theta(target);
  adapt(task, z_mean, z_square);
  task.metrics["fitness_best"] = fitness[order[0]];
  task.metrics["step_size"] = task.state.scalar(kStepSize);
}

// The paths, C and σ (Hansen 2016, eqs. 43 to 47), with C diagonal: ⟨y⟩ = √C⟨z⟩.
void CmaEs::adapt(ServerTask& task, std::span<const double> z_mean, std::span<const double> z_square) const {
  const auto& s = strategy_;
  const auto variance = task.state.at(kVariance), step_path = task.state.at(kStepPath).first(weights_),
             shape_path = task.state.at(kShapePath);
  const double step_gain = std::sqrt(s.c_sigma * (2.0 - s.c_sigma) * s.mu_eff);
  for (std::size_t j = 0; j < weights_; ++j) {
    step_path[j] = static_cast<float>((1.0 - s.c_sigma) * step_path[j] + step_gain * z_mean[j]);
  }
  const double length = norm(step_path);
  // Steps of a path that is too long to be chance do not enter C while σ is still catching up.
  const double unbiased = std::sqrt(1.0 - std::pow(1.0 - s.c_sigma, 2.0 * static_cast<double>(task.round)));
  const bool steady = length / unbiased < (1.4 + 2.0 / (static_cast<double>(weights_) + 1.0)) * s.chi;
  const double shape_gain = steady ? std::sqrt(s.c_c * (2.0 - s.c_c) * s.mu_eff) : 0.0;
  const double kept = 1.0 - s.c_1 - s.c_mu + (steady ? 0.0 : s.c_1 * s.c_c * (2.0 - s.c_c));
  for (std::size_t j = 0; j < weights_; ++j) {
    const double c = variance[j];
    const double path = (1.0 - s.c_c) * shape_path[j] + shape_gain * std::sqrt(c) * z_mean[j];
    shape_path[j] = static_cast<float>(path);
    variance[j] = static_cast<float>(kept * c + s.c_1 * path * path + s.c_mu * c * z_square[j]);
  }
  task.state.scalar(kStepSize) *= std::exp(std::min(1.0, s.c_sigma / s.d_sigma * (length / s.chi - 1.0)));
}

}  // namespace

void add_cmaes(MethodRegistry& registry) {
  registry.add({.name = "cmaes",
                .summary = "Separable CMA-ES: a Gaussian over models that learns its own step sizes from fitness.",
                .source = "Ros & Hansen 2008",
                .options = {{"population", std::int64_t{0}, "candidates of a round; 0 takes 4 + 3·ln of the weights",
                             at_least(0)},
                            {"sigma", 0.3, "standard deviation of every weight at first", above(0)}}},
               [](const MethodContext& context) { return std::make_unique<CmaEs>(context); });
}

}  // namespace parley
