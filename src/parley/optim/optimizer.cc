#include "parley/optim/optimizer.h"

#include <array>
#include <cassert>
#include <cmath>
#include <utility>

#include "parley/gauss/loops.h"

namespace parley {
namespace {

// The gradient of element i with the method's term, for one combination of what is present.
template <bool kPull, bool kPrecision, bool kOffset>
struct Gradient {
  const float *grads, *precision, *centre, *offset;
  float scale, decay, strength;
  float operator()(std::size_t i, float theta) const {
    float g = scale * grads[i] + decay * theta;
    if constexpr (kPull) {
      const float pull = strength * (theta - centre[i]);
      g += kPrecision ? precision[i] * pull : pull;
    } else if constexpr (kPrecision) {
      g += strength * precision[i] * theta;
    }
    if constexpr (kOffset) g += offset[i];
    return g;
  }
};

// Calls visit(gradient) with the one Gradient type that fits the term, so that the loop inside is branch-free.
template <class Parts, class Visit>
void with_gradient(const Parts& parts, Visit visit) {
  const LinearTerm& term = parts.term;
  const auto pick = [&]<bool kPull, bool kPrecision, bool kOffset>() {
    visit(Gradient<kPull, kPrecision, kOffset>{parts.grads.data(), term.precision.data(), term.centre.data(),
                                               term.offset.data(), parts.scale, parts.decay, term.strength});
  };
  const bool pull = term.strength != 0.0f && !term.centre.empty();
  const bool precision = term.strength != 0.0f && !term.precision.empty();
  const bool offset = !term.offset.empty();
  assert((term.strength == 0.0f || pull || precision) && "a strength needs a centre or a precision");
  const auto with_offset = [&]<bool kPull, bool kPrecision>() {
    offset ? pick.template operator()<kPull, kPrecision, true>() : pick.template operator()<kPull, kPrecision, false>();
  };
  if (pull) {
    precision ? with_offset.template operator()<true, true>() : with_offset.template operator()<true, false>();
  } else {
    precision ? with_offset.template operator()<false, true>() : with_offset.template operator()<false, false>();
  }
}

// An optimiser from its rule for one number. rule(lr, steps) gives the update of this step, update(θ, g, slot…), with
// whatever is the same for all numbers already worked out.
template <std::size_t kSlots, class Rule>
class Fused final : public Optimizer {
 public:
  Fused(const std::array<Slot, kSlots>& slots, double decay, double clip_norm, Rule rule)
      : Optimizer({slots.begin(), slots.end()}, decay, clip_norm), rule_(std::move(rule)) {}

 private:
  void apply(std::span<float> theta, const Parts& parts, float lr) override {
    const auto update = rule_(lr, state().steps);
    with_gradient(parts,
                  [&](const auto& gradient) { sweep(theta, gradient, update, std::make_index_sequence<kSlots>()); });
  }

  template <std::size_t... k>
  void sweep(std::span<float> theta, const auto& gradient, const auto& update, std::index_sequence<k...>) {
    float* const t = theta.data();
    const std::array<float*, kSlots> slots{state().slots[k].data()...};
    gauss::for_each(theta.size(), [=](std::size_t i) { update(t[i], gradient(i, t[i]), slots[k][i]...); });
  }

  Rule rule_;
};

using Slot = Optimizer::Slot;
constexpr Slot kMean{};
constexpr Slot kSquare{.square = true};
Slot square_from(double initial) {
  return {static_cast<float>(initial), true};
}

// Who applies client.weight_decay.
enum class Decay { in_gradient, by_rule };

template <std::size_t kSlots, class Rule>
std::unique_ptr<Optimizer> fused(const Options& client, const std::array<Slot, kSlots>& slots, Rule rule,
                                 Decay decay = Decay::in_gradient) {
  return std::make_unique<Fused<kSlots, Rule>>(slots, decay == Decay::in_gradient ? client.real("weight_decay") : 0.0,
                                               client.real("clip_norm"), rule);
}

float real(const Options& client, const char* key) {
  return static_cast<float>(client.real(key));
}

std::unique_ptr<Optimizer> sgd(const Options& client) {
  return fused<0>(client, {}, [](float lr, double) { return [=](float& t, float g) { t -= lr * g; }; });
}

// v ← βv + g; θ ← θ − lr·v. At a constant lr this is Eq. 4.6 of Kiss 2021 with its η in place: v ← βv − ηg, θ ← θ + v.
std::unique_ptr<Optimizer> momentum(const Options& client) {
  return fused<1>(client, {kMean}, [beta = real(client, "momentum")](float lr, double) {
    return [=](float& t, float g, float& v) {
      v = beta * v + g;
      t -= lr * v;
    };
  });
}

// v ← βv + g; θ ← θ − lr·(g + βv). θ is the point that looks ahead, w + βv of Eq. 4.7, so that its gradient is at hand.
std::unique_ptr<Optimizer> nesterov(const Options& client) {
  return fused<1>(client, {kMean}, [beta = real(client, "momentum")](float lr, double) {
    return [=](float& t, float g, float& v) {
      v = beta * v + g;
      t -= lr * (g + beta * v);
    };
  });
}

// a ← a + g²; θ ← θ − lr·g/(√a + ε). Eq. 4.8 divides by zero at first; hence a₀ and ε.
std::unique_ptr<Optimizer> adagrad(const Options& client) {
  return fused<1>(client, {square_from(client.real("initial_accumulator"))},
                  [epsilon = real(client, "epsilon")](float lr, double) {
                    return [=](float& t, float g, float& a) {
                      a += g * g;
                      t -= lr * g / (std::sqrt(a) + epsilon);
                    };
                  });
}

// s ← ρs + (1−ρ)g²; θ ← θ − lr·g/(√s + ε)
std::unique_ptr<Optimizer> rmsprop(const Options& client) {
  return fused<1>(client, {kSquare}, [rho = real(client, "rho"), epsilon = real(client, "epsilon")](float lr, double) {
    return [=](float& t, float g, float& s) {
      s = rho * s + (1.0f - rho) * g * g;
      t -= lr * g / (std::sqrt(s) + epsilon);
    };
  });
}

// s ← ρs + (1−ρ)g²; d = g·√((u + ε)/(s + ε)); u ← ρu + (1−ρ)d²; θ ← θ − lr·d
std::unique_ptr<Optimizer> adadelta(const Options& client) {
  return fused<2>(client, {kSquare, kSquare},
                  [rho = real(client, "rho"), epsilon = real(client, "epsilon")](float lr, double) {
                    return [=](float& t, float g, float& s, float& u) {
                      s = rho * s + (1.0f - rho) * g * g;
                      const float d = g * std::sqrt((u + epsilon) / (s + epsilon));
                      u = rho * u + (1.0f - rho) * d * d;
                      t -= lr * d;
                    };
                  });
}

// m ← β₁m + (1−β₁)g; v ← β₂v + (1−β₂)g²; θ ← θ − lr·(m̂/(√v̂ + ε) + λθ), with m̂ = m/(1−β₁ᵗ) and v̂ = v/(1−β₂ᵗ): the
// correction is of what is used, not of what is kept (Eq. 4.12 and 4.13 compound it). λ = 0 is Adam.
auto adam_rule(const Options& client, float decoupled_decay) {
  return [beta1 = real(client, "beta1"), beta2 = real(client, "beta2"), epsilon = real(client, "epsilon"),
          decoupled_decay](float lr, double steps) {
    const auto rate = static_cast<float>(lr / (1.0 - std::pow(beta1, steps)));
    const auto root = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(beta2, steps)));
    const float keep = 1.0f - lr * decoupled_decay;
    return [=](float& t, float g, float& m, float& v) {
      m = beta1 * m + (1.0f - beta1) * g;
      v = beta2 * v + (1.0f - beta2) * g * g;
      t = keep * t - rate * m / (root * std::sqrt(v) + epsilon);
    };
  };
}

std::unique_ptr<Optimizer> adam(const Options& client) {
  return fused<2>(client, {kMean, kSquare}, adam_rule(client, 0.0f));
}

std::unique_ptr<Optimizer> adamw(const Options& client) {
  return fused<2>(client, {kMean, kSquare}, adam_rule(client, real(client, "weight_decay")), Decay::by_rule);
}

// m ← β₁m + (1−β₁)g; v ← v − (1−β₂)·sign(v − g²)·g²; θ ← θ − lr·m/(√v + ε). v₀ > 0, and no bias correction, which would
// hide that 1 − β₂ has lost digits when β₂ is a float; so it is formed first.
std::unique_ptr<Optimizer> yogi(const Options& client) {
  const auto fresh2 = static_cast<float>(1.0 - client.real("beta2"));
  return fused<2>(client, {kMean, square_from(client.real("initial_accumulator"))},
                  [fresh2, beta1 = real(client, "beta1"), epsilon = real(client, "epsilon")](float lr, double) {
                    return [=](float& t, float g, float& m, float& v) {
                      const float square = g * g, change = fresh2 * square;
                      m = beta1 * m + (1.0f - beta1) * g;
                      v += v < square ? change : v > square ? -change : 0.0f;
                      t -= lr * m / (std::sqrt(v) + epsilon);
                    };
                  });
}

}  // namespace

Optimizer::Optimizer(std::vector<Slot> slots, double decay, double clip_norm)
    : slots_(std::move(slots)), decay_(static_cast<float>(decay)), clip_norm_(clip_norm) {}

void Optimizer::reset(std::size_t size) {
  state_.slots.resize(slots_.size());
  for (std::size_t k = 0; k < slots_.size(); ++k) state_.slots[k].assign(size, slots_[k].initial);
  state_.steps = 0.0;
}

void Optimizer::step(std::span<float> theta, std::span<const float> grads, const LinearTerm& term, float lr) {
  float scale = 1.0f;
  if (clip_norm_ > 0.0) {
    const double norm = std::sqrt(gauss::sum(grads.size(), [&](std::size_t i) { return double{grads[i]} * grads[i]; }));
    if (norm > clip_norm_) scale = static_cast<float>(clip_norm_ / norm);
  }
  count();
  apply(theta, {grads, scale, decay_, term}, lr);
}

OptimizerRegistry optimizers() {
  OptimizerRegistry registry("optimizer");
  const Range fraction{.low = 0.0, .high = 1.0, .high_excluded = true};
  const Option epsilon{"epsilon", 1e-8, "added to the root of the second moment", above(0.0)};
  const Option momentum_share{"momentum", 0.9, "share of the last step that is kept", fraction};
  const Option beta1{"beta1", 0.9, "share of the old mean that is kept", fraction};
  const Option beta2{"beta2", 0.999, "share of the old mean square that is kept", fraction};
  registry.add({.name = "sgd", .summary = "Stochastic gradient descent."}, sgd);
  registry.add({.name = "momentum",
                .summary = "SGD with heavy-ball momentum.",
                .source = "Polyak 1964",
                .options = {momentum_share}},
               momentum);
  registry.add({.name = "nesterov",
                .summary = "SGD with Nesterov's look-ahead.",
                .source = "Nesterov 1983",
                .options = {momentum_share}},
               nesterov);
  registry.add({.name = "adagrad",
                .summary = "Steps scaled by the root of all squared gradients so far.",
                .source = "Duchi et al. 2011",
                .options = {{"initial_accumulator", 0.1, "starting value of the squared sum", at_least(0.0)}, epsilon}},
               adagrad);
  registry.add({.name = "rmsprop",
                .summary = "Steps scaled by a moving root mean square of the gradient.",
                .source = "Tieleman & Hinton 2012",
                .options = {{"rho", 0.9, "share of the old mean square that is kept", fraction}, epsilon}},
               rmsprop);
  registry.add({.name = "adadelta",
                .summary = "Steps as long as the last ones were, by moving root mean squares; made for lr = 1.",
                .source = "Zeiler 2012",
                .options = {{"rho", 0.95, "share of the old mean squares that is kept", fraction},
                            {"epsilon", 1e-6, "added to both mean squares; sets the first steps", above(0.0)}}},
               adadelta);
  registry.add({.name = "adam",
                .summary = "Moving first and second moments with bias correction.",
                .source = "Kingma & Ba 2015",
                .options = {beta1, beta2, epsilon}},
               adam);
  registry.add({.name = "adamw",
                .summary = "Adam with weight_decay beside the scaled step instead of in the gradient.",
                .source = "Loshchilov & Hutter 2019",
                .options = {beta1, beta2, epsilon}},
               adamw);
  registry.add({.name = "yogi",
                .summary = "Like Adam, but the second moment grows and shrinks by steps of one size.",
                .source = "Zaheer et al. 2018",
                .options = {beta1,
                            beta2,
                            {"epsilon", 1e-3, epsilon.meaning, above(0.0)},
                            {"initial_accumulator", 1e-6, "starting value of the second moment", above(0.0)}}},
               yogi);
  return registry;
}

}  // namespace parley
