#include "parley/methods/rnn_aggregator/rnn_aggregator.h"

#include <algorithm>
#include <cmath>

#include "parley/base/errors.h"
#include "parley/methods/rnn_aggregator/coordinate_lstm.h"
#include "parley/model/evaluation.h"

namespace parley {
namespace {

constexpr const char* kWeights = "lstm";
constexpr const char* kSlots[] = {"lstm_slot1", "lstm_slot2"};  // Adam's
constexpr const char* kSteps = "lstm_steps";

std::unique_ptr<Optimizer> make_adam() {
  const auto registry = optimizers();
  std::vector<Option> declared = LocalOptions::declared();
  for (const auto& option : registry.at("adam").about.options) declared.push_back(option);
  return registry.at("adam").make(Options("client", declared));
}

// The clients' networks of a round, as the LSTM reads them: steps from the broadcast model in units of their usual
// size, so that what was learned early, when steps are long, still holds when they have become short.
struct Cohort {
  Cohort(std::span<const Single> singles, std::span<const float> theta, std::size_t trainable)
      : mean(theta.size(), 0.0) {
    double total = 0.0, squares = 0.0;
    for (const auto& single : singles) total += single.weight;
    steps.reserve(singles.size());  // the sequence points at them
    for (const auto& single : singles) {
      const double share = single.weight / total;
      const Flat& own = single["theta"];
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += share * own[i];
      Flat& step = steps.emplace_back(trainable);
      for (std::size_t i = 0; i < trainable; ++i) {
        step[i] = own[i] - theta[i];
        squares += share * step[i] * step[i];
      }
      sequence.steps.emplace_back(step);
      sequence.shares.push_back(static_cast<float>(share));
    }
    scale = static_cast<float>(std::sqrt(squares / static_cast<double>(trainable)));
    for (Flat& step : steps) {
      for (float& x : step) x = scale > 0.0f ? x / scale : 0.0f;
    }
  }

  FlatDouble mean;
  std::vector<Flat> steps;
  float scale = 0.0f;  // root mean square of the clients' steps; 0: nobody moved
  CoordinateLstm::Sequence sequence;
};

class RnnAggregator final : public Method {
 public:
  explicit RnnAggregator(const MethodContext& context)
      : layout_(context.layout),
        lstm_(static_cast<std::size_t>(context.options.integer("units"))),
        lstm_layout_(std::make_shared<const Layout>(
            std::vector<LayoutEntry>{{.name = "weights", .shape = {static_cast<std::int64_t>(lstm_.size())}}})),
        steps_(static_cast<std::size_t>(context.options.integer("steps"))),
        sample_(static_cast<std::size_t>(context.options.integer("coordinates"))),
        lr_(static_cast<float>(context.options.real("lr"))),
        seed_(context.seed) {
    if (context.server.integer("examples") == 0) {
      fail(
          "server.examples = 0: rnn_aggregator learns from examples that the server holds itself; set for example 200");
    }
  }

  // Every network by itself: the LSTM reads them one after the other.
  Schema schema() const override {
    return {.channels = {{.name = "theta", .layout = layout_, .weighting = Weighting::each, .relative_to = "theta"}}};
  }

  void start(State& state) const override {
    Flat weights(lstm_.size());
    Stream stream(seed_, "rnn_aggregator.start");
    lstm_.initialise(weights, stream);
    state.add(kWeights, lstm_layout_, false, std::move(weights));
    for (const char* slot : kSlots) state.add(slot, lstm_layout_, false, Flat(lstm_.size(), 0.0f));
    state.add_scalar(kSteps, false, 0.0);
  }

  void client(const ClientTask& task, Update& update) const override {
    task.load();
    task.train(update);
    std::ranges::copy(task.model.parameters(), update["theta"].begin());
  }

  void server(ServerTask& task) const override {
    if (task.own == nullptr) {
      fail<RunError>("rnn_aggregator: this server holds no examples to learn from; run it where server.examples are");
    }
    Cohort cohort(task.sum.singles(), task.state.at("theta"), layout_->trainable());
    const auto model = task.own->new_model();
    if (cohort.scale > 0.0f) {
      learn(task, cohort, *model);
      const auto answers = correct(task.state.at(kWeights), cohort, *model);
      task.metrics["server_loss"] = evaluate(*model, task.own->examples).loss();
      for (std::size_t i = 0; i < answers.size(); ++i) cohort.mean[i] += static_cast<double>(cohort.scale) * answers[i];
    }
    task.move_theta(cohort.mean);
  }

 private:
  // Puts mean + scale·answer into the model and returns the answers.
  Flat correct(std::span<const float> weights, const Cohort& cohort, Model& model) const {
    Flat answers(layout_->trainable());
    lstm_.answer(weights, cohort.sequence, answers);
    const auto theta = model.parameters();
    for (std::size_t i = 0; i < theta.size(); ++i) theta[i] = static_cast<float>(cohort.mean[i]);
    for (std::size_t i = 0; i < answers.size(); ++i) theta[i] += cohort.scale * answers[i];
    return answers;
  }

  // dL/dφ = Σ_i dL/dθ_i · scale · d answer_i/dφ, over a random part of the coordinates.
  void learn(ServerTask& task, const Cohort& cohort, Model& model) const {
    LocalTrainer trainer(make_adam());  // for its gradient over all examples
    const auto adam = make_adam();
    restore(*adam, task.state);
    Stream stream(seed_, "rnn_aggregator.coordinates", task.round);
    const auto weights = task.state.at(kWeights);
    const std::size_t trainable = layout_->trainable(), count = std::min(sample_, trainable);
    std::vector<std::size_t> coordinates(count);
    Flat slopes(count), gradient(lstm_.size());
    for (std::size_t step = 0; step < steps_; ++step) {
      correct(weights, cohort, model);
      const auto slope = trainer.full_gradient(model, task.own->examples).gradient;
      for (std::size_t j = 0; j < count; ++j) {
        coordinates[j] = count == trainable ? j : static_cast<std::size_t>(stream.below(trainable));
        slopes[j] = slope[coordinates[j]] * cohort.scale;
      }
      std::ranges::fill(gradient, 0.0f);
      lstm_.add_gradient(weights, cohort.sequence, coordinates, slopes, gradient);
      adam->step(weights, gradient, {}, lr_);
    }
    keep(*adam, task.state);
  }

  void restore(Optimizer& adam, const State& state) const {
    adam.reset(lstm_.size());
    for (std::size_t k = 0; k < std::size(kSlots); ++k) {
      std::ranges::copy(state.at(kSlots[k]), adam.state().slots[k].begin());
    }
    adam.state().steps = state.scalar(kSteps);
  }
  void keep(Optimizer& adam, State& state) const {
    for (std::size_t k = 0; k < std::size(kSlots); ++k) {
      std::ranges::copy(adam.state().slots[k], state.at(kSlots[k]).begin());
    }
    state.scalar(kSteps) = adam.state().steps;
  }

  std::shared_ptr<const Layout> layout_;
  CoordinateLstm lstm_;
  std::shared_ptr<const Layout> lstm_layout_;
  std::size_t steps_, sample_;
  float lr_;
  std::uint64_t seed_;
};

}  // namespace

void add_rnn_aggregator(MethodRegistry& registry) {
  registry.add(
      {.name = "rnn_aggregator",
       .summary = "A small LSTM that the server trains on examples of its own corrects the clients' mean.",
       .source = "the learned aggregator that FeDEC is compared with; Andrychowicz et al. 2016",
       .options = {{"units", std::int64_t{4}, "units of the LSTM", between(1, 256)},
                   {"steps", std::int64_t{5}, "steps of its training in a round", at_least(0)},
                   {"lr", 0.01, "learning rate of that training (Adam)", above(0.0)},
                   {"coordinates", std::int64_t{10000}, "weights that a step of it looks at, at random", at_least(1)}},
       .needs = {{"server.examples", std::int64_t{200}}}},
      [](const MethodContext& context) { return std::make_unique<RnnAggregator>(context); });
}

}  // namespace parley
