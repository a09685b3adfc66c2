#include "parley/optim/server_step.h"

#include <cmath>

namespace parley {
namespace {

class Replace final : public ServerStep {
 public:
  explicit Replace(const Options& server) : lr_(server.real("lr")) {}
  std::vector<Slot> slots() const override { return {}; }
  void apply(std::span<float> theta, std::span<const double> target, std::span<const std::span<float>>) const override {
    // At lr = 1 the target itself, not θ + (target − θ): one client in is that client out, bit for bit.
    for (std::size_t i = 0; i < theta.size(); ++i) {
      theta[i] = static_cast<float>(lr_ == 1.0 ? target[i] : theta[i] + lr_ * (target[i] - theta[i]));
    }
  }

 private:
  double lr_;
};

// FedAvgM: m ← βm + Δ, θ ← θ + lr·m.
class Momentum final : public ServerStep {
 public:
  explicit Momentum(const Options& server) : lr_(server.real("lr")), beta_(server.real("momentum")) {}
  std::vector<Slot> slots() const override { return {{"server_m", 0.0f}}; }
  void apply(std::span<float> theta, std::span<const double> target,
             std::span<const std::span<float>> slots) const override {
    const auto m = slots[0];
    for (std::size_t i = 0; i < theta.size(); ++i) {
      m[i] = static_cast<float>(beta_ * m[i] + (target[i] - theta[i]));
      theta[i] = static_cast<float>(theta[i] + lr_ * m[i]);
    }
  }

 private:
  double lr_, beta_;
};

// Reddi et al. 2021, Algorithm 2; `next_v` is the line in which the three differ. No bias correction, v₀ = τ².
template <class NextV>
class Adaptive final : public ServerStep {
 public:
  Adaptive(const Options& server, NextV next_v)
      : lr_(server.real("lr")), beta1_(server.real("beta1")), tau_(server.real("tau")), next_v_(next_v) {}
  std::vector<Slot> slots() const override {
    return {{"server_m", 0.0f}, {"server_v", static_cast<float>(tau_ * tau_)}};
  }
  void apply(std::span<float> theta, std::span<const double> target,
             std::span<const std::span<float>> slots) const override {
    const auto m = slots[0], v = slots[1];
    for (std::size_t i = 0; i < theta.size(); ++i) {
      const double delta = target[i] - theta[i];
      m[i] = static_cast<float>(beta1_ * m[i] + (1.0 - beta1_) * delta);
      v[i] = static_cast<float>(next_v_(double{v[i]}, delta * delta));
      theta[i] = static_cast<float>(theta[i] + lr_ * m[i] / (std::sqrt(double{v[i]}) + tau_));
    }
  }

 private:
  double lr_, beta1_, tau_;
  NextV next_v_;
};

template <class NextV>
std::unique_ptr<ServerStep> adaptive(const Options& server, NextV next_v) {
  return std::make_unique<Adaptive<NextV>>(server, next_v);
}

}  // namespace

ServerStepRegistry server_steps() {
  ServerStepRegistry registry("server step");
  const Range fraction{.low = 0.0, .high = 1.0, .high_excluded = true};
  const auto lr = [](double fallback) { return Option{"lr", fallback, "the server's step size", above(0.0)}; };
  const Option beta1{"beta1", 0.9, "share of the old pseudo-gradient that is kept", fraction};
  const Option beta2{"beta2", 0.99, "share of the old squared pseudo-gradient that is kept", fraction};
  const Option tau{"tau", 1e-3, "degree of adaptivity: added to the root of v, and v starts at its square", above(0.0)};
  registry.add({.name = "replace",
                .summary = "Takes the aggregate as it is (lr = 1), or goes part of the way.",
                .source = "McMahan et al. 2017",
                .options = {lr(1.0)}},
               [](const Options& server) { return std::make_unique<Replace>(server); });
  registry.add({.name = "momentum",
                .summary = "FedAvgM: momentum on the pseudo-gradient.",
                .source = "Hsu et al. 2019",
                .options = {lr(1.0), {"momentum", 0.9, "share of the last step that is kept", fraction}}},
               [](const Options& server) { return std::make_unique<Momentum>(server); });
  registry.add({.name = "adam",
                .summary = "FedAdam: Adam on the pseudo-gradient, without bias correction.",
                .source = "Reddi et al. 2021",
                .options = {lr(0.01), beta1, beta2, tau}},
               [](const Options& server) {
                 return adaptive(server,
                                 [b = server.real("beta2")](double v, double d2) { return b * v + (1 - b) * d2; });
               });
  registry.add({.name = "adagrad",
                .summary = "FedAdagrad: AdaGrad on the pseudo-gradient.",
                .source = "Reddi et al. 2021",
                .options = {lr(0.01), {"beta1", 0.0, beta1.meaning, fraction}, tau}},
               [](const Options& server) { return adaptive(server, [](double v, double d2) { return v + d2; }); });
  registry.add({.name = "yogi",
                .summary = "FedYogi: like FedAdam, but v grows and shrinks by steps of one size.",
                .source = "Reddi et al. 2021",
                .options = {lr(0.01), beta1, beta2, tau}},
               [](const Options& server) {
                 return adaptive(server, [b = server.real("beta2")](double v, double d2) {
                   return v - (1 - b) * d2 * ((v > d2) - (v < d2));
                 });
               });
  return registry;
}

}  // namespace parley
