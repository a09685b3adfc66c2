#include "parley/optim/local_training.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "parley/base/errors.h"

namespace parley {
namespace {

// A larger batch is computed in pieces and its gradient summed, so that full-batch training of a large client does not
// need memory for all of its activations.
constexpr std::size_t kLargestPiece = 2048;

void refuse_divergence(double loss, std::size_t step) {
  if (!std::isfinite(loss)) fail<RefusedUpdate>("diverged: the loss was not finite at local step {}", step + 1);
}

}  // namespace

std::vector<Option> LocalOptions::declared() {
  const Range share{.low = 0.0, .high = 1.0, .low_excluded = true};
  return {
      {"epochs", std::int64_t{1}, "passes over the client's data in a round", at_least(1)},
      {"batch", std::int64_t{32}, "examples per step; 0 takes all of the client's data", at_least(0)},
      {"lr", 0.01, "learning rate", above(0.0)},
      {"lr_decay", 1.0, "factor on the learning rate after every lr_decay_every rounds", share},
      {"lr_decay_every", std::int64_t{1}, "rounds between two factors lr_decay", at_least(1)},
      {"lr_time_decay", 0.0, "φ of a further factor 1/(1 + φt) after t rounds", at_least(0.0)},
      {"lr_cosine", std::int64_t{0},
       "rounds in which a further factor falls from 1 to lr_cosine_end along half a cosine; 0 leaves it out",
       at_least(0)},
      {"lr_cosine_end", 0.01, "where lr_cosine ends, and stays", share},
      {"shuffle", true, "a new order of the examples every epoch"},
      {"max_steps", std::int64_t{0}, "stop a client after this many steps per round; 0 sets no limit", at_least(0)},
      {"state",
       std::string("reset"),
       "what the optimiser remembers between rounds: nothing, each client its own, or the clients' mean, sent around",
       {},
       {"reset", "worker", "central"}},
      {"weight_decay", 0.0, "pull towards zero, added to the gradient", at_least(0.0)},
      {"clip_norm", 0.0, "longest L2 norm of a step's gradient, which is scaled down to it; 0 sets no limit",
       at_least(0.0)},
  };
}

LocalOptions::LocalOptions(const Options& client)
    : epochs(static_cast<std::size_t>(client.integer("epochs"))),
      batch(static_cast<std::size_t>(client.integer("batch"))),
      lr(client.real("lr")),
      lr_decay(client.real("lr_decay")),
      lr_decay_every(static_cast<std::size_t>(client.integer("lr_decay_every"))),
      lr_time_decay(client.real("lr_time_decay")),
      lr_cosine(static_cast<std::size_t>(client.integer("lr_cosine"))),
      lr_cosine_end(client.real("lr_cosine_end")),
      shuffle(client.flag("shuffle")),
      max_steps(static_cast<std::size_t>(client.integer("max_steps"))) {}

double LocalOptions::lr_in(std::size_t round) const {
  const std::size_t t = round - 1;
  double rate = lr * std::pow(lr_decay, static_cast<double>(t / lr_decay_every));
  rate /= 1.0 + lr_time_decay * static_cast<double>(t);
  if (lr_cosine > 0) {
    const double share = static_cast<double>(std::min(t, lr_cosine)) / static_cast<double>(lr_cosine);
    rate *= lr_cosine_end + (1.0 - lr_cosine_end) * 0.5 * (1.0 + std::cos(std::numbers::pi * share));
  }
  return rate;
}

std::size_t LocalOptions::steps(std::size_t examples) const {
  const std::size_t size = batch == 0 ? std::max<std::size_t>(examples, 1) : batch;
  const std::size_t all = epochs * ((examples + size - 1) / size);
  return max_steps == 0 ? all : std::min(all, max_steps);
}

BatchOrder::BatchOrder(std::size_t examples, const LocalOptions& options, Stream stream)
    : order_(examples),
      batch_(options.batch == 0 ? examples : options.batch),
      epochs_left_(examples == 0 ? 0 : options.epochs),
      steps_left_(options.max_steps == 0 ? std::numeric_limits<std::size_t>::max() : options.max_steps),
      cursor_(examples),
      shuffle_(options.shuffle),
      stream_(stream) {
  std::iota(order_.begin(), order_.end(), 0u);
}

std::span<const std::uint32_t> BatchOrder::next() {
  if (steps_left_ == 0) return {};
  if (cursor_ == order_.size()) {
    if (epochs_left_ == 0) return {};
    --epochs_left_;
    cursor_ = 0;
    if (shuffle_) stream_.shuffle(std::span(order_));
  }
  --steps_left_;
  const std::size_t begin = cursor_;
  cursor_ = std::min(cursor_ + batch_, order_.size());
  return std::span(order_).subspan(begin, cursor_ - begin);
}

double LocalTrainer::backward(Model& model, const View& data, std::span<const std::uint32_t> positions,
                              std::size_t step) {
  double loss = 0.0;
  use_accumulated_ = positions.size() > kLargestPiece;
  if (!use_accumulated_) {
    loss = model.backward(buffer_.gather(data, positions));
  } else {
    accumulated_.assign(model.layout().trainable(), 0.0f);
    for (std::size_t begin = 0; begin < positions.size(); begin += kLargestPiece) {
      const auto piece = positions.subspan(begin, std::min(kLargestPiece, positions.size() - begin));
      const double share = static_cast<double>(piece.size()) / static_cast<double>(positions.size());
      loss += share * model.backward(buffer_.gather(data, piece));
      const auto gradients = model.gradients();
      for (std::size_t i = 0; i < accumulated_.size(); ++i) accumulated_[i] += static_cast<float>(share) * gradients[i];
    }
  }
  refuse_divergence(loss, step);
  return loss;
}

// The whole step by the model itself, where it can.
std::optional<double> LocalTrainer::descend(Model& model, const View& data, std::span<const std::uint32_t> positions,
                                            float lr, std::size_t step) {
  if (positions.size() > kLargestPiece) return std::nullopt;
  const auto loss = model.descend(buffer_.gather(data, positions), lr);
  if (loss) {
    refuse_divergence(*loss, step);
    optimizer_->count();
  }
  return loss;
}

std::span<float> LocalTrainer::gradients_of(Model& model) {
  return use_accumulated_ ? std::span<float>(accumulated_) : model.gradients().first(model.layout().trainable());
}

TrainingStats LocalTrainer::train(Model& model, const View& data, const LocalOptions& options, double lr,
                                  Stream batches, const LinearTerm& term, const LocalHooks& hooks,
                                  OptimizerState* state) {
  const std::size_t trainable = model.layout().trainable();
  BatchOrder order(data.size(), options, batches);
  TrainingStats stats;
  if (state != nullptr) {
    optimizer_->state() = std::move(*state);
  } else {
    optimizer_->reset(trainable);
  }
  const auto rate = static_cast<float>(lr);
  const bool plain = optimizer_->plain() && term.adds_nothing() && !hooks.look_at_gradients();
  for (auto positions = order.next(); !positions.empty(); positions = order.next()) {
    auto loss = plain ? descend(model, data, positions, rate, stats.steps) : std::nullopt;
    if (!loss) {
      loss = backward(model, data, positions, stats.steps);
      const std::span<float> gradients = gradients_of(model);
      if (hooks.before_step) hooks.before_step(gradients, positions.size());
      if (hooks.add_gradient) hooks.add_gradient(gradients);
      if (hooks.step) {
        hooks.step(gradients, rate);
      } else {
        optimizer_->step(model.parameters().first(trainable), gradients, term, rate);
      }
    }
    stats.loss_sum += *loss * static_cast<double>(positions.size());
    stats.examples += positions.size();
    ++stats.steps;
    if (hooks.after_step) hooks.after_step(stats.steps);
  }
  if (state != nullptr) *state = std::move(optimizer_->state());
  return stats;
}

void LocalTrainer::for_each_gradient(Model& model, const View& data, std::size_t batch,
                                     const std::function<void(std::span<const float>, std::size_t)>& visit) {
  LocalOptions once;
  once.batch = batch;
  once.shuffle = false;
  BatchOrder order(data.size(), once, Stream(0, "no shuffle"));
  std::size_t step = 0;
  for (auto positions = order.next(); !positions.empty(); positions = order.next()) {
    backward(model, data, positions, step++);
    visit(gradients_of(model), positions.size());
  }
}

void LocalTrainer::show(Model& model, const View& data) {
  constexpr std::size_t kChunk = 500;
  for (std::size_t begin = 0; begin < data.size(); begin += kChunk) {
    const Batch batch = buffer_.gather_range(data, begin, std::min(begin + kChunk, data.size()));
    outputs_.resize(batch.size * model.outputs());
    model.predict(batch, outputs_);
  }
}

LocalTrainer::FullGradient LocalTrainer::full_gradient(Model& model, const View& data) {
  std::vector<std::uint32_t> all(data.size());
  std::iota(all.begin(), all.end(), 0u);
  const double loss = backward(model, data, all, 0);
  return {loss, gradients_of(model)};
}

}  // namespace parley
