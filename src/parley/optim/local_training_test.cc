#include "parley/optim/local_training.h"

#include <gtest/gtest.h>

#include "parley/base/errors.h"
#include "parley/data/dataset.h"

namespace parley {
namespace {

// One weight, whose gradient is always 2; it says who took its steps.
class Watched final : public Model {
 public:
  explicit Watched(bool descends) : descends_(descends) {}
  const Layout& layout() const override { return layout_; }
  std::span<float> parameters() override { return weight_; }
  std::span<float> gradients() override { return gradient_; }
  double backward(const Batch&) override {
    ++backwards;
    gradient_[0] = 2.0f;
    return loss_;
  }
  std::optional<double> descend(const Batch&, float lr) override {
    if (!descends_) return std::nullopt;
    ++descents;
    weight_[0] -= lr * 2.0f;
    return loss_;
  }
  void predict(const Batch&, std::span<float>) override {}
  std::size_t outputs() const override { return 1; }
  Loss loss() const override { return Loss::mse; }

  void diverge() { loss_ = std::numeric_limits<double>::infinity(); }
  std::size_t backwards = 0, descents = 0;

 private:
  bool descends_;
  double loss_ = 3.0;
  Layout layout_{std::vector<LayoutEntry>{{.name = "w", .shape = {1}}}};
  Flat weight_{0.0f}, gradient_{0.0f};
};

Dataset ten_rows() {
  return {.name = "ten",
          .shape = {1},
          .values = std::vector<float>(10),
          .targets = std::vector<float>(10),
          .target_size = 1};
}

// Five steps of lr = 0.5.
struct Training {
  explicit Training(const std::string& optimizer, const std::map<std::string, double>& settings = {},
                    bool descends = true)
      : model(descends), trainer(make(optimizer, settings)) {}

  static std::unique_ptr<Optimizer> make(const std::string& name, const std::map<std::string, double>& settings) {
    auto declared = LocalOptions::declared();
    const auto registry = optimizers();
    for (const auto& option : registry.at(name).about.options) declared.push_back(option);
    Options options("client", declared);
    for (const auto& [key, value] : settings) options.set(key, value);
    return registry.at(name).make(options);
  }
  TrainingStats train(const LinearTerm& term = {}, const LocalHooks& hooks = {}, OptimizerState* state = nullptr) {
    const Dataset data = ten_rows();
    LocalOptions options;
    options.batch = 2;
    return trainer.train(model, WholeView(data).view(), options, 0.5, Stream(1, "batches"), term, hooks, state);
  }

  Watched model;
  LocalTrainer trainer;
};

TEST(LocalTrainer, LetsTheModelTakePlainSteps) {
  Training plain("sgd"), without("sgd", {}, false);
  OptimizerState kept, same;
  const TrainingStats stats = plain.train({}, {}, &kept);
  without.train({}, {}, &same);
  EXPECT_EQ(plain.model.descents, 5u);
  EXPECT_EQ(plain.model.backwards, 0u);
  EXPECT_EQ(without.model.backwards, 5u);
  EXPECT_EQ(plain.model.parameters()[0], -5.0f);
  EXPECT_EQ(without.model.parameters()[0], -5.0f);
  EXPECT_EQ(stats.steps, 5u);
  EXPECT_EQ(stats.loss_sum, 30.0);
  EXPECT_EQ(kept.steps, 5.0);
  EXPECT_EQ(same.steps, 5.0);
}

// Whatever needs the gradient, or more of a step than lr·gradient, gets it.
TEST(LocalTrainer, TakesAllOtherStepsItself) {
  const std::vector<float> one{1.0f};
  std::size_t seen = 0;
  const auto expect_own = [](Training training, const LinearTerm& term = {}, const LocalHooks& hooks = {}) {
    training.train(term, hooks);
    EXPECT_EQ(training.model.descents, 0u);
    EXPECT_EQ(training.model.backwards, 5u);
  };
  expect_own(Training("momentum"));
  expect_own(Training("adam"));
  expect_own(Training("sgd", {{"weight_decay", 0.1}}));
  expect_own(Training("sgd", {{"clip_norm", 1.0}}));
  expect_own(Training("sgd"), {.strength = 1.0f, .centre = one});
  expect_own(Training("sgd"), {.offset = one});
  expect_own(Training("sgd"), {}, {.before_step = [&](std::span<const float>, std::size_t) { ++seen; }});
  expect_own(Training("sgd"), {}, {.add_gradient = [&](std::span<float>) { ++seen; }});
  expect_own(Training("sgd"), {}, {.step = [&](std::span<const float>, float) { ++seen; }});
  EXPECT_EQ(seen, 15u);
}

TEST(LocalTrainer, CallsAfterEachPlainStep) {
  Training training("sgd");
  std::vector<std::size_t> steps;
  training.train({}, {.after_step = [&](std::size_t step) { steps.push_back(step); }});
  EXPECT_EQ(steps, (std::vector<std::size_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(training.model.descents, 5u);
}

TEST(LocalTrainer, RefusesALossThatIsNotFinite) {
  for (const bool descends : {true, false}) {
    Training training("sgd", {}, descends);
    training.model.diverge();
    EXPECT_THROW(training.train(), RefusedUpdate);
    EXPECT_EQ(training.model.descents + training.model.backwards, 1u);
  }
}

}  // namespace
}  // namespace parley
