#include "parley/methods/fedpa/fedpa.h"

#include <algorithm>

#include "parley/methods/fedavg/fedavg.h"
#include "parley/methods/fedpa/posterior_samples.h"

namespace parley {
namespace {

// Iterate-averaged stochastic gradients (IASG): behind a burn-in, the mean of the weights over each window
// of steps is one sample.
class WindowSampler {
 public:
  // Up to `wanted` windows of one length, the last of which ends with the last of `steps`; what does not fill them is
  // added to the burn-in.
  WindowSampler(std::size_t steps, double burn_in, std::size_t wanted, PosteriorSamples& samples) : samples_(samples) {
    const std::size_t usable = steps - static_cast<std::size_t>(burn_in * static_cast<double>(steps));
    const std::size_t windows = std::min(wanted, usable);
    length_ = usable / windows;
    first_ = steps - windows * length_ + 1;
  }

  // After each step, which counts from 1.
  void visit(std::size_t step, std::span<const float> theta) {
    if (step < first_) return;
    const std::size_t position = (step - first_) % length_;
    if (position == 0) mean_.assign(theta.size(), 0.0);
    const double share = 1.0 / static_cast<double>(position + 1);
    for (std::size_t i = 0; i < theta.size(); ++i) mean_[i] += share * (theta[i] - mean_[i]);
    if (position + 1 == length_) samples_.add(mean_);
  }

 private:
  PosteriorSamples& samples_;
  std::size_t length_, first_;
  FlatDouble mean_;
};

// What travels is θ − Δ, a changed copy of θ like FedAvg's weights. So FedAvg is the server half, and stages see the Δ.
class FedPa final : public Method {
 public:
  explicit FedPa(const MethodContext& context)
      : averaging_(make_averaging(context, 0.0)),
        trainable_(context.layout->trainable()),
        burn_in_rounds_(static_cast<std::size_t>(context.options.integer("burn_in_rounds"))),
        burn_in_(context.options.real("burn_in")),
        samples_(static_cast<std::size_t>(context.options.integer("samples"))),
        rho_(context.options.real("rho")) {}

  Schema schema() const override { return averaging_->schema(); }

  void client(const ClientTask& task, Update& update) const override {
    if (task.round <= burn_in_rounds_) return averaging_->client(task, update);
    PosteriorSamples samples(trainable_, rho_);
    WindowSampler sampler(task.local.steps(task.data.size()), burn_in_, samples_, samples);
    task.load();
    task.train(update, {}, {.after_step = [&](std::size_t step) {
                 sampler.visit(step, task.model.parameters().first(trainable_));
               }});
    const auto start = task.broadcast.at("theta").first(trainable_);
    const FlatDouble delta = samples.delta(start);  // Σ̂⁻¹(θ − μ̂)
    Flat& sent = update["theta"];
    std::ranges::copy(task.model.parameters(), sent.begin());
    for (std::size_t i = 0; i < trainable_; ++i) sent[i] = static_cast<float>(start[i] - delta[i]);
  }

  void server(ServerTask& task) const override { averaging_->server(task); }

 private:
  std::unique_ptr<Method> averaging_;
  std::size_t trainable_, burn_in_rounds_;
  double burn_in_;
  std::size_t samples_;
  double rho_;
};

}  // namespace

void add_fedpa(MethodRegistry& registry) {
  registry.add({.name = "fedpa",
                .summary = "Samples every client's posterior and corrects its step by the samples' covariance.",
                .source = "Al-Shedivat et al. 2021",
                .options = {{"burn_in_rounds", std::int64_t{2}, "rounds of fedavg before clients sample", at_least(0)},
                            {"burn_in", 0.2, "share of a client's steps before its first sample",
                             Range{.low = 0.0, .high = 1.0, .high_excluded = true}},
                            {"samples", std::int64_t{4},
                             "samples a client takes in a round, each the mean of the weights over a window of steps",
                             at_least(1)},
                            {"rho", 0.01, "trust in the samples' covariance; 0 takes the identity", at_least(0.0)}}},
               [](const MethodContext& context) { return std::make_unique<FedPa>(context); });
}

}  // namespace parley
