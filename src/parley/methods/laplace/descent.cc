#include "parley/methods/laplace/descent.h"

#include <algorithm>
#include <cmath>

#include "parley/base/errors.h"
#include "parley/methods/laplace/evidence.h"

namespace parley {
namespace {

// Of the state: the last step, and the gradient that it was made from.
constexpr const char *kVelocity = LineSearch::kStep, *kGradient = "gradient";
// Scalars of the state. `rises` counts the rounds in a row in which the loss rose by a hundredth or more; `weight` is
// what the last round's clients weighed, `objective` their loss with the prior's share, `promised` by how much the last
// step should lower that.
constexpr const char *kDamping = "damping", *kRises = "rises", *kWeight = "weight", *kObjective = "objective",
                     *kPromised = "promised";
constexpr double kMostRises = 10.0, kRise = 1.01;

bool same_examples(const ServerTask& task) {
  return task.state.scalar(kWeight) == task.sum.weight();
}

double squares_of(std::span<const float> weights) {
  double sum = 0.0;
  for (const float w : weights) sum += static_cast<double>(w) * static_cast<double>(w);
  return sum;
}

}  // namespace

Descent::Descent(std::shared_ptr<const Layout> layout, const GlobalCurvature& curvature, const LineSearch& search,
                 const LaplaceOptions& options)
    : layout_(std::move(layout)),
      curvature_(curvature),
      search_(search),
      options_(options),
      secants_(layout_, options.uses_secants() ? options.secants : 0) {}

void Descent::start(State& state) const {
  search_.start(state, layout_);
  state.add_scalar(kDamping, false, options_.damping);
  state.add_scalar(kPrior, false, options_.prior);
  state.add_scalar(kPoints, true, 0.0);
  for (const char* name : {kLoss, kRises, kWeight, kObjective, kPromised}) state.add_scalar(name, false, 0.0);
  secants_.start(state);
  if (secants_.any()) state.add(kGradient, layout_, false, Flat(layout_->size(), 0.0f));
}

void Descent::choose_prior(ServerTask& task, double examples) const {
  State& state = task.state;
  const auto theta = state.at("theta").first(layout_->trainable());
  const double squares = squares_of(theta);
  if (squares == 0.0) return;
  const Evidence found = maximise_evidence(curvature_.spectrum(curvature_.in(state)), squares, examples);
  double& prior = state.scalar(kPrior);
  const double change = found.precision / examples - prior;
  prior += change;
  task.metrics["prior"] = prior;
  task.metrics["effective_weights"] = found.effective;
  task.metrics["log_evidence"] = found.log_penalty / examples - task.sum.scalar(kLoss) / task.sum.weight();
  if (state.scalar(kPoints) == 0.0) return;
  const auto velocity = state.at(kVelocity);
  double before = 0.0;  // ‖θ‖² where the last step began
  for (std::size_t i = 0; i < theta.size(); ++i) {
    const double there = static_cast<double>(theta[i]) - static_cast<double>(velocity[i]);
    before += there * there;
    if (secants_.any()) state.at(kGradient)[i] += static_cast<float>(change * there);
  }
  state.scalar(kObjective) += 0.5 * change * before;
}

void Descent::step(ServerTask& task, FlatDouble target) const {
  const auto gradient = std::span(target).first(layout_->trainable());
  const auto theta = task.state.at("theta");
  const double prior = task.state.scalar(kPrior);
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += prior * static_cast<double>(theta[i]);
  const bool worse = judge_last_step(task, 0.5 * prior * squares_of(theta.first(gradient.size())));
  if (secants_.any()) learn_secant(task, worse, gradient);
  choose_velocity(task, gradient);
  task.state.scalar(kWeight) = task.sum.weight();
  task.state.scalar(kPoints) += 1.0;
  if (!search_.wants(secants_.known(task.state))) return go(task, target);
  search_.begin(task.state);
  for (std::size_t i = gradient.size(); i < target.size(); ++i) theta[i] = static_cast<float>(target[i]);
}

void Descent::finish_search(ServerTask& task) const {
  State& state = task.state;
  state.scalar(kPromised) = search_.finish(task, state.scalar(kPrior));
  double& damping = state.scalar(kDamping);
  if (search_.stayed(state)) damping = std::min(3.0 * damping, std::max(options_.damping, options_.damping_cap));
  task.metrics["damping"] = damping;
  const auto theta = state.at("theta");
  FlatDouble target(theta.begin(), theta.end());
  go(task, target);
}

// From θ by the velocity, which becomes what server.step made of it; behind what is trained, `target` has statistics.
void Descent::go(ServerTask& task, std::span<double> target) const {
  const auto theta = task.state.at("theta"), velocity = task.state.at(kVelocity);
  const std::size_t trainable = layout_->trainable();
  for (std::size_t i = 0; i < trainable; ++i) {
    target[i] = static_cast<double>(theta[i]) + static_cast<double>(velocity[i]);
  }
  const Flat before(theta.begin(), theta.end());
  task.move_theta(target);
  if (!secants_.any()) return;
  for (std::size_t i = 0; i < trainable; ++i) velocity[i] = theta[i] - before[i];
}

// Levenberg–Marquardt on what is minimised, at the broadcast weights: that is where the last step led. True when it
// should not have been taken. A velocity that led upwards is dropped (O'Donoghue & Candès 2015).
bool Descent::judge_last_step(ServerTask& task, double penalty) const {
  State& state = task.state;
  double &loss = state.scalar(kLoss), &objective = state.scalar(kObjective), &damping = state.scalar(kDamping),
         &rises = state.scalar(kRises);
  const double found = task.sum.scalar(kLoss) / task.sum.weight();
  bool worse = false;
  if (state.scalar(kPoints) > 0.0 && options_.adapts_damping() && !search_.stayed(state)) {
    const bool rose = found + penalty > objective;
    damping = std::clamp(damping * (rose ? 3.0 : 0.5), std::min(options_.damping, options_.damping_floor),
                         std::max(options_.damping, options_.damping_cap));
    if (rose && !secants_.any()) std::ranges::fill(state.at(kVelocity), 0.0f);
    // The prior's pull may raise the loss by a little, round after round; that is no failure.
    rises = found > kRise * loss ? rises + 1.0 : 0.0;
    worse = found + penalty > kRise * objective && same_examples(task);
    const double promised = state.scalar(kPromised);
    if (promised > 0.0) task.metrics["kept"] = (objective - found - penalty) / promised;
  }
  if (rises >= kMostRises) {
    fail<RunError>("round {}: the loss has risen for {} rounds; lower method.step or raise method.damping", task.round,
                   kMostRises);
  }
  task.metrics["damping"] = damping;
  if (worse && secants_.any()) return true;
  loss = found;
  objective = found + penalty;
  return false;
}

// The last step and how the gradient changed by it. One that led upwards is taken back: it has shown where it is
// steep, and the next one starts where it did, from the gradient that was found there.
void Descent::learn_secant(ServerTask& task, bool take_back, std::span<double> gradient) const {
  State& state = task.state;
  const auto last = state.at(kGradient), step = state.at(kVelocity), theta = state.at("theta");
  if (state.scalar(kPoints) > 0.0 && same_examples(task) && !search_.stayed(state)) {
    const std::vector<double> s(step.begin(), step.begin() + std::ssize(gradient));
    std::vector<double> y(s.size()), curved(s);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = gradient[i] - static_cast<double>(last[i]);
    curvature_.times(curvature_.in(state), state.scalar(kDamping) + state.scalar(kPrior), curved);
    secants_.add(state, s, y, curved);
  }
  task.metrics["taken_back"] = take_back ? 1.0 : 0.0;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    if (take_back) {
      theta[i] -= step[i];
      gradient[i] = static_cast<double>(last[i]);
    } else {
      last[i] = static_cast<float>(gradient[i]);
    }
  }
}

// (curvature + d)⁻¹ times each. Factors that are not positive definite with this damping are given ten times as much.
void Descent::precondition(const ServerTask& task, std::span<const std::span<double>> gradients) const {
  constexpr double kLeast = 1e-8;
  std::vector<std::vector<double>> before;
  for (const auto gradient : gradients) before.emplace_back(gradient.begin(), gradient.end());
  double damping = task.state.scalar(kDamping) + task.state.scalar(kPrior);
  while (const LayerMatrix* failed = curvature_.precondition(curvature_.in(task.state), damping, gradients)) {
    damping = std::max(kLeast, 10.0 * damping);
    if (damping > std::max(options_.damping, options_.damping_cap)) {
      fail<RunError>("round {}: the factors of {} are not positive definite; raise method.damping", task.round,
                     failed->name());
    }
    for (std::size_t i = 0; i < before.size(); ++i) std::ranges::copy(before[i], gradients[i].begin());
  }
}

// The factors of a convolution, which is used in many places at once, underrate its curvature about 25-fold: until a
// secant says so, a step is held that much shorter, unless its length is measured.
double Descent::trust(const State& state) const {
  constexpr double kUnderrated = 25.0;
  const bool known = secants_.known(state), guessed = secants_.any() && !known && !search_.wants(known);
  return options_.whole_trust() / (guessed && curvature_.convolves() ? kUnderrated : 1.0);
}

// The velocity becomes the step: V ← mV − η·(curvature + d)⁻¹·gradient, no longer than is trusted.
void Descent::choose_velocity(ServerTask& task, std::span<const double> gradient) const {
  std::vector<double> step(gradient.begin(), gradient.end());
  const auto first = [&](std::span<const std::span<double>> gradients) { precondition(task, gradients); };
  if (secants_.any()) {
    secants_.precondition(task.state, first, step);
  } else {
    const std::span<double> alone[] = {step};
    first(alone);
  }
  const auto velocity = task.state.at(kVelocity);
  const double momentum = secants_.any() ? 0.0 : options_.momentum;
  for (std::size_t i = 0; i < step.size(); ++i) {
    step[i] = momentum * static_cast<double>(velocity[i]) - options_.step_size() * step[i];
  }
  // Secants know the curvature along their own step: VᵀHV = −η·gᵀV.
  const double slope = dot(gradient, step);
  const double kl =
      secants_.any() ? -0.5 * options_.step_size() * slope : curvature_.predicted_kl(curvature_.in(task.state), step);
  const double shrink = shrink_to(trust(task.state), kl) * search_.reach(task.state);
  std::ranges::transform(step, velocity.begin(), [&](double v) { return static_cast<float>(shrink * v); });
  task.metrics["predicted_kl"] = shrink * shrink * kl;
  task.state.scalar(kPromised) = -shrink * slope - shrink * shrink * kl;
}

}  // namespace parley
