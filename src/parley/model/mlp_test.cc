#include "parley/model/mlp.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "parley/model/gradient_check.h"

namespace parley {
namespace {

using testing::gradient_error;
using testing::RandomBatch;

std::unique_ptr<Model> make(const std::string& name, const Task& task,
                            const std::map<std::string, Value>& values = {}) {
  const auto registry = native_models();
  const auto& entry = registry.at(name);
  Options options("model", entry.about.options);
  for (const auto& [key, value] : values) options.set(key, value);
  auto model = choose_backend(entry, "auto")(options, task);
  testing::initialise(*model);
  return model;
}

using Widths = std::vector<std::int64_t>;

struct GradientCase {
  std::string name;
  Loss loss;
  std::map<std::string, Value> options;

  friend std::ostream& operator<<(std::ostream& out, const GradientCase& c) {
    out << c.name << (c.loss == Loss::mse ? " mse" : " cross_entropy");
    for (const auto& [key, value] : c.options) out << ' ' << key << '=' << to_toml(value);
    return out;
  }
};

class MlpGradient : public ::testing::TestWithParam<GradientCase> {};

TEST_P(MlpGradient, AgreesWithCentralDifferences) {
  const auto& [name, loss, options] = GetParam();
  const Task task{.input_shape = {2, 3}, .outputs = 4, .loss = loss};
  const auto model = make(name, task, options);
  // A difference across the kink of a relu is no derivative, so the best of a few small batches
  // counts: one without a unit near its kink. A wrong gradient would pass on none of them.
  double error = 1.0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    error = std::min(error, gradient_error(*model, RandomBatch(3, task, seed).get(), 4e-3));
  }
  EXPECT_LT(error, 5e-4);
}

INSTANTIATE_TEST_SUITE_P(
    EveryKind, MlpGradient,
    ::testing::Values(
        GradientCase{"linear", Loss::mse, {}}, GradientCase{"logistic", Loss::cross_entropy, {}},
        GradientCase{"mlp", Loss::cross_entropy, {{"hidden", Widths{7}}}},
        GradientCase{"mlp", Loss::mse, {{"hidden", Widths{7, 5}}}},
        GradientCase{"mlp", Loss::cross_entropy, {{"hidden", Widths{7, 5, 6}}, {"activation", std::string("sigmoid")}}},
        GradientCase{"mlp", Loss::cross_entropy, {{"hidden", Widths{7, 5}}, {"activation", std::string("tanh")}}},
        GradientCase{"mlp", Loss::cross_entropy, {{"hidden", Widths{9, 8}}, {"dropout", 0.4}}},
        GradientCase{
            "mlp", Loss::mse, {{"hidden", Widths{9, 8}}, {"dropout", 0.4}, {"activation", std::string("sigmoid")}}},
        GradientCase{
            "mlp", Loss::mse, {{"hidden", Widths{9, 8}}, {"dropout", 0.4}, {"activation", std::string("tanh")}}}));

TEST(Mlp, LeastSquaresOnClassesAimsAtOneHot) {
  const Task classes{.input_shape = {6}, .outputs = 4, .loss = Loss::cross_entropy};
  const auto model = make("linear", classes);
  EXPECT_EQ(model->loss(), Loss::mse);
  const RandomBatch batch(9, classes);
  std::vector<float> outputs(9 * 4);
  model->predict(batch.get(), outputs);
  double expected = 0.0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const double target = batch.get().labels[i / 4] == static_cast<std::int32_t>(i % 4) ? 1.0 : 0.0;
    expected += (outputs[i] - target) * (outputs[i] - target) / 36.0;
  }
  EXPECT_NEAR(model->backward(batch.get()), expected, 1e-6);
  EXPECT_LT(gradient_error(*model, batch.get(), 4e-3), 1e-3);
}

TEST(Mlp, HasTheLayoutOfPyTorch) {
  const auto model = make("mlp", {.input_shape = {1, 28, 28}, .outputs = 10});
  EXPECT_EQ(model->layout().describe(),
            "fc1.weight [200, 784], fc1.bias [200], fc2.weight [200, 200], fc2.bias [200], "
            "fc3.weight [10, 200], fc3.bias [10]");
  EXPECT_EQ(model->layout().size(), 199210u);  // McMahan et al. 2017, the 2NN
  EXPECT_EQ(model->layout().trainable(), model->layout().size());
}

TEST(Mlp, ComputesWxPlusB) {
  const auto model = make("linear", {.input_shape = {2}, .outputs = 2, .loss = Loss::mse});
  const std::vector<float> weights{1, 2, 3, 4, 10, 20};
  std::copy(weights.begin(), weights.end(), model->parameters().begin());
  const std::vector<float> inputs{1, 1, 0, -1};
  std::vector<float> outputs(4);
  model->predict({.size = 2, .inputs = inputs}, outputs);
  EXPECT_EQ(outputs, (std::vector<float>{13, 27, 8, 16}));
}

TEST(Mlp, DropoutKeepsTheMean) {
  // With weights and inputs of one, a linear read-out of the hidden layer shows the mean of the
  // kept activations.
  const Task task{.input_shape = {1}, .outputs = 1, .loss = Loss::mse};
  const auto model = make("mlp", task, {{"hidden", Widths{2000}}, {"dropout", 0.25}});
  std::fill(model->parameters().begin(), model->parameters().end(), 0.0f);
  const auto fill = [&](const char* name, float value) {
    const auto values = model->layout().find(name)->of(model->parameters());
    std::fill(values.begin(), values.end(), value);
  };
  fill("fc1.weight", 1.0f);
  fill("fc2.weight", 1.0f / 2000.0f);
  const std::vector<float> inputs(50, 1.0f), targets(50, 0.0f);
  const Batch batch{.size = 50, .inputs = inputs, .targets = targets};
  model->reseed(Stream(1, "noise"));
  // The output is 1 on average with variance p/(1−p)/2000, so its mean square is 1 + 1/6000.
  EXPECT_NEAR(model->backward(batch), 1.0, 0.01);
  std::vector<float> outputs(50);
  model->predict(batch, outputs);
  EXPECT_NEAR(outputs[0], 1.0f, 1e-5f);
}

TEST(Mlp, DropoutFollowsItsStream) {
  const Task task{.input_shape = {6}, .outputs = 4};
  const auto model = make("mlp", task, {{"hidden", Widths{31}}, {"dropout", 0.5}});
  const RandomBatch batch(5, task);
  const auto draw = [&](std::uint64_t client) {
    model->reseed(Stream(1, "noise", 0, client));
    return std::pair(model->backward(batch.get()), model->backward(batch.get()));
  };
  const auto first = draw(1);
  EXPECT_NE(first.first, first.second);
  EXPECT_EQ(draw(1), first);
  EXPECT_NE(draw(2), first);
}

TEST(Mlp, GivesTheSameBitsOnAnyThreadAndAfterAnyBatch) {
  const Task task{.input_shape = {50}, .outputs = 10};
  const RandomBatch batch(20, task), larger(33, task, 2);
  const auto gradients = [&](bool warm) {
    const auto model = make("mlp", task, {{"hidden", Widths{40, 30}}});
    if (warm) model->backward(larger.get());
    model->backward(batch.get());
    return std::vector<float>(model->gradients().begin(), model->gradients().end());
  };
  const auto here = gradients(false);
  std::vector<float> first, second;
  std::thread one([&] { first = gradients(true); }), two([&] { second = gradients(false); });
  one.join();
  two.join();
  EXPECT_EQ(first, here);
  EXPECT_EQ(second, here);
}

TEST(Mlp, ReportsALossThatIsNotFinite) {
  const Task task{.input_shape = {6}, .outputs = 4};
  const auto model = make("logistic", task);
  model->parameters()[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(std::isfinite(model->backward(RandomBatch(5, task).get())));
}

TEST(Models, RefuseWhatTheyCannotDo) {
  const Task regression{.input_shape = {6}, .outputs = 4, .loss = Loss::mse};
  EXPECT_THROW(make("logistic", regression), InputError);
  EXPECT_THROW(make("quadratic", regression), InputError);
  EXPECT_THROW(make("mpl", regression), InputError);
}

TEST(Models, NameTheBackendsThereAre) {
  const auto registry = native_models();
  const auto& entry = registry.at("mlp");
  EXPECT_EQ(&choose_backend(entry, "auto"), &choose_backend(entry, "native"));
  try {
    choose_backend(entry, "nativ");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "model.backend: unknown backend 'nativ'; did you mean 'native'? known: auto, "
                 "native (for model.name = \"mlp\")");
  }
}

TEST(Initialise, FollowsTheRoles) {
  const Layout layout({{.name = "a.weight", .shape = {8, 4, 5, 5}},
                       {.name = "a.bias", .shape = {8}, .role = Role::bias},
                       {.name = "n.scale", .shape = {8}, .role = Role::norm_scale},
                       {.name = "n.shift", .shape = {8}, .role = Role::norm_shift},
                       {.name = "n.mean", .shape = {8}, .role = Role::running_mean},
                       {.name = "n.var", .shape = {8}, .role = Role::running_var},
                       {.name = "n.count", .shape = {}, .role = Role::counter}});
  std::vector<float> values(layout.size(), 5.0f);
  Stream stream(1, "init");
  initialise(layout, values, stream);
  const auto of = [&](const char* name) { return layout.find(name)->of(std::span(values)); };
  for (const char* name : {"a.weight", "a.bias"}) {
    for (const float x : of(name)) EXPECT_LE(std::abs(x), 0.1f);  // 1/√(4·5·5)
  }
  const auto weights = of("a.weight");
  EXPECT_GT(*std::max_element(weights.begin(), weights.end()), 0.09f);
  EXPECT_LT(*std::min_element(weights.begin(), weights.end()), -0.09f);
  for (const char* name : {"n.scale", "n.var"}) {
    for (const float x : of(name)) EXPECT_EQ(x, 1.0f);
  }
  for (const char* name : {"n.shift", "n.mean", "n.count"}) {
    for (const float x : of(name)) EXPECT_EQ(x, 0.0f);
  }
}

}  // namespace
}  // namespace parley
