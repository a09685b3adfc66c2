#include "parley/optim/optimizer.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace parley {
namespace {

// The gradient of element i with the method's term, for one combination of what is present.
template <bool kPull, bool kPrecision, bool kOffset>
struct Gradient {
  const float *grads, *precision, *centre, *offset;
  float strength, decay;
  float operator()(std::size_t i, float theta) const {
    float g = grads[i] + decay * theta;
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
template <class Visit>
void with_gradient(std::span<const float> grads, const LinearTerm& term, float decay, Visit visit) {
  const auto pick = [&]<bool kPull, bool kPrecision, bool kOffset>() {
    visit(Gradient<kPull, kPrecision, kOffset>{grads.data(), term.precision.data(), term.centre.data(),
                                               term.offset.data(), term.strength, decay});
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

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const Options& client) : Optimizer(0, client) {}
  void step(std::span<float> theta, std::span<const float> grads, const LinearTerm& term, float lr) override {
    ++steps_;
    with_gradient(grads, term, decay_, [&](const auto& gradient) {
      float* t = theta.data();
      const std::size_t n = theta.size();
      for (std::size_t i = 0; i < n; ++i) t[i] -= lr * gradient(i, t[i]);
    });
  }
};

// v ← βv + g; θ ← θ − lr·v, or with Nesterov's look-ahead θ ← θ − lr·(g + βv), as PyTorch writes them.
class Momentum final : public Optimizer {
 public:
  Momentum(const Options& client, bool nesterov)
      : Optimizer(1, client), beta_(static_cast<float>(client.real("momentum"))), nesterov_(nesterov) {}
  void step(std::span<float> theta, std::span<const float> grads, const LinearTerm& term, float lr) override {
    ++steps_;
    with_gradient(grads, term, decay_, [&](const auto& gradient) {
      float *t = theta.data(), *v = slots_[0].data();
      const std::size_t n = theta.size();
      const float look = nesterov_ ? 1.0f : 0.0f, carry = nesterov_ ? beta_ : 1.0f, beta = beta_;
      for (std::size_t i = 0; i < n; ++i) {
        const float g = gradient(i, t[i]);
        v[i] = beta * v[i] + g;
        t[i] -= lr * (look * g + carry * v[i]);
      }
    });
  }

 private:
  float beta_;
  bool nesterov_;
};

// a ← a + g²; θ ← θ − lr·g/(√a + ε)
class Adagrad final : public Optimizer {
 public:
  explicit Adagrad(const Options& client) : Optimizer(1, client), epsilon_(static_cast<float>(client.real("epsilon"))) {
    initial_slot_ = static_cast<float>(client.real("initial_accumulator"));
  }
  void step(std::span<float> theta, std::span<const float> grads, const LinearTerm& term, float lr) override {
    ++steps_;
    with_gradient(grads, term, decay_, [&](const auto& gradient) {
      float *t = theta.data(), *a = slots_[0].data();
      const std::size_t n = theta.size();
      const float epsilon = epsilon_;
      for (std::size_t i = 0; i < n; ++i) {
        const float g = gradient(i, t[i]);
        a[i] += g * g;
        t[i] -= lr * g / (std::sqrt(a[i]) + epsilon);
      }
    });
  }

 private:
  float epsilon_;
};

// s ← ρs + (1−ρ)g²; θ ← θ − lr·g/(√s + ε)
class Rmsprop final : public Optimizer {
 public:
  explicit Rmsprop(const Options& client)
      : Optimizer(1, client),
        rho_(static_cast<float>(client.real("rho"))),
        epsilon_(static_cast<float>(client.real("epsilon"))) {}
  void step(std::span<float> theta, std::span<const float> grads, const LinearTerm& term, float lr) override {
    ++steps_;
    with_gradient(grads, term, decay_, [&](const auto& gradient) {
      float *t = theta.data(), *s = slots_[0].data();
      const std::size_t n = theta.size();
      const float rho = rho_, epsilon = epsilon_;
      for (std::size_t i = 0; i < n; ++i) {
        const float g = gradient(i, t[i]);
        s[i] = rho * s[i] + (1.0f - rho) * g * g;
        t[i] -= lr * g / (std::sqrt(s[i]) + epsilon);
      }
    });
  }

 private:
  float rho_, epsilon_;
};

// Kingma & Ba (2015), with bias correction.
class Adam final : public Optimizer {
 public:
  explicit Adam(const Options& client)
      : Optimizer(2, client),
        beta1_(static_cast<float>(client.real("beta1"))),
        beta2_(static_cast<float>(client.real("beta2"))),
        epsilon_(static_cast<float>(client.real("epsilon"))) {}
  void step(std::span<float> theta, std::span<const float> grads, const LinearTerm& term, float lr) override {
    ++steps_;
    const auto t_steps = static_cast<double>(steps_);
    const auto rate = static_cast<float>(lr / (1.0 - std::pow(beta1_, t_steps)));
    const auto root = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(beta2_, t_steps)));
    with_gradient(grads, term, decay_, [&](const auto& gradient) {
      float *t = theta.data(), *m = slots_[0].data(), *v = slots_[1].data();
      const std::size_t n = theta.size();
      const float beta1 = beta1_, beta2 = beta2_, epsilon = epsilon_;
      for (std::size_t i = 0; i < n; ++i) {
        const float g = gradient(i, t[i]);
        m[i] = beta1 * m[i] + (1.0f - beta1) * g;
        v[i] = beta2 * v[i] + (1.0f - beta2) * g * g;
        t[i] -= rate * m[i] / (root * std::sqrt(v[i]) + epsilon);
      }
    });
  }

 private:
  float beta1_, beta2_, epsilon_;
};

const Range kFraction{.low = 0.0, .high = 1.0, .high_excluded = true};

}  // namespace

Optimizer::Optimizer(std::size_t slot_count, const Options& client)
    : slots_(slot_count), decay_(static_cast<float>(client.real("weight_decay"))) {}

void Optimizer::reset(std::size_t size) {
  for (auto& slot : slots_) slot.assign(size, initial_slot_);
  steps_ = 0;
}

OptimizerRegistry optimizers() {
  OptimizerRegistry registry("optimizer");
  const Option epsilon{"epsilon", 1e-8, "added to the root of the second moment", above(0.0)};
  const Option momentum{"momentum", 0.9, "share of the last step that is kept", kFraction};
  registry.add({.name = "sgd", .summary = "Stochastic gradient descent."},
               [](const Options& client) { return std::make_unique<Sgd>(client); });
  registry.add(
      {.name = "momentum", .summary = "SGD with heavy-ball momentum.", .source = "Polyak 1964", .options = {momentum}},
      [](const Options& client) { return std::make_unique<Momentum>(client, false); });
  registry.add({.name = "nesterov",
                .summary = "SGD with Nesterov's look-ahead.",
                .source = "Nesterov 1983",
                .options = {momentum}},
               [](const Options& client) { return std::make_unique<Momentum>(client, true); });
  registry.add({.name = "adagrad",
                .summary = "Steps scaled by the root of all squared gradients so far.",
                .source = "Duchi et al. 2011",
                .options = {{"initial_accumulator", 0.1, "starting value of the squared sum", at_least(0.0)}, epsilon}},
               [](const Options& client) { return std::make_unique<Adagrad>(client); });
  registry.add({.name = "rmsprop",
                .summary = "Steps scaled by a moving root mean square of the gradient.",
                .source = "Tieleman & Hinton 2012",
                .options = {{"rho", 0.9, "share of the old mean square that is kept", kFraction}, epsilon}},
               [](const Options& client) { return std::make_unique<Rmsprop>(client); });
  registry.add({.name = "adam",
                .summary = "Moving first and second moments with bias correction.",
                .source = "Kingma & Ba 2015",
                .options = {{"beta1", 0.9, "share of the old mean that is kept", kFraction},
                            {"beta2", 0.999, "share of the old mean square that is kept", kFraction},
                            epsilon}},
               [](const Options& client) { return std::make_unique<Adam>(client); });
  return registry;
}

}  // namespace parley
