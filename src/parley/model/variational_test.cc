#include "parley/model/variational.h"

#include <gtest/gtest.h>

#include "parley/base/errors.h"
#include "parley/model/gradient_check.h"
#include "parley/model/mlp.h"

namespace parley {
namespace {

using testing::gradient_error;
using testing::RandomBatch;
using Widths = std::vector<std::int64_t>;

std::unique_ptr<Model> network(const std::string& name, const Task& task,
                               const std::map<std::string, Value>& values = {}) {
  const auto registry = native_models();
  const auto& entry = registry.at(name);
  Options options("model", entry.about.options);
  for (const auto& [key, value] : values) options.set(key, value);
  return choose_backend(entry, "auto")(options, task);
}

// Means as a network starts with, the private ones anywhere, and every ρ about the one given.
std::unique_ptr<Variational> started(std::unique_ptr<Variational> model, float rho) {
  testing::initialise(*model);
  Stream stream(5, "start");
  for (float& r : model->rhos()) r = rho + 0.3f * static_cast<float>(stream.normal());
  return model;
}

struct GradientCase {
  std::string name;
  Loss loss;
  bool with_private;
  std::map<std::string, Value> options;

  friend std::ostream& operator<<(std::ostream& out, const GradientCase& c) {
    out << c.name << (c.loss == Loss::mse ? " mse" : " cross_entropy") << (c.with_private ? " private" : "");
    for (const auto& [key, value] : c.options) out << ' ' << key << '=' << to_toml(value);
    return out;
  }
};

class VariationalGradient : public ::testing::TestWithParam<GradientCase> {};

// With the noise fixed the loss is a function of means and ρ.
TEST_P(VariationalGradient, AgreesWithCentralDifferences) {
  const auto& [name, loss, with_private, options] = GetParam();
  const Task task{.input_shape = {2, 3}, .outputs = 4, .loss = loss};
  const auto model = started(make_variational(network(name, task, options), with_private), -1.5f);
  double error = 1.0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {  // the best of a few: a relu's kink is no derivative
    error = std::min(error, gradient_error(*model, RandomBatch(3, task, seed).get(), 4e-3));
  }
  EXPECT_LT(error, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(
    EveryKind, VariationalGradient,
    ::testing::Values(
        GradientCase{"linear", Loss::mse, false, {}}, GradientCase{"logistic", Loss::cross_entropy, true, {}},
        GradientCase{"mlp", Loss::cross_entropy, false, {{"hidden", Widths{7, 5}}}},
        GradientCase{"mlp", Loss::cross_entropy, true, {{"hidden", Widths{7, 5}}}},
        GradientCase{"mlp", Loss::mse, true, {{"hidden", Widths{7}}, {"activation", std::string("tanh")}}},
        GradientCase{
            "mlp", Loss::cross_entropy, true, {{"hidden", Widths{6, 7, 5}}, {"activation", std::string("sigmoid")}}}));

// Any network by drawn weights: the draw is the same whenever the noise is.
TEST(WeightDraws, GradientAgreesWithCentralDifferences) {
  const Task task{.input_shape = {6}, .outputs = 3, .loss = Loss::mse};
  const auto model = started(make_variational(network("quadratic", task), false), -1.5f);
  EXPECT_EQ(model->gaussians(), 3u);
  RandomBatch batch(4, task);
  EXPECT_LT(gradient_error(*model, batch.get(), 4e-3), 1e-3);
}

TEST(Variational, TheLayoutHasMeansThenRhosAndPrivateNames) {
  const auto model =
      make_variational(network("mlp", {.input_shape = {3}, .outputs = 2}, {{"hidden", Widths{4}}}), true);
  const auto& entries = model->layout().entries();
  EXPECT_EQ(entries[0].name, "fc1.weight");
  EXPECT_EQ(entries[4].name, "private/fc1.weight");
  EXPECT_EQ(entries[12].name, "rho/fc1.weight");
  EXPECT_EQ(entries[12].offset, model->gaussians());
  EXPECT_EQ(model->shared(), 4u * 3 + 4 + 2 * 4 + 2);
  EXPECT_EQ(model->layout().trainable(), 2 * model->gaussians());
}

std::vector<float> predictions(Model& model, const Batch& batch) {
  std::vector<float> outputs(batch.size * model.outputs());
  model.predict(batch, outputs);
  return outputs;
}

// σ → 0, and a private part as it starts: the network itself.
TEST(Variational, WithoutWidthANewClientPredictsWhatTheServerDoes) {
  const Task task{.input_shape = {6}, .outputs = 4};
  const std::map<std::string, Value> options{{"hidden", Widths{7, 5}}};
  auto plain = network("mlp", task, options);
  testing::initialise(*plain);
  const RandomBatch batch(8, task);
  const auto expected = predictions(*plain, batch.get());
  for (const bool with_private : {false, true}) {
    const auto model = make_variational(network("mlp", task, options), with_private);
    std::ranges::copy(plain->parameters(), model->means().begin());
    Stream stream(3, "private");
    model->start_private(stream, model->means().subspan(model->shared()));
    std::ranges::fill(model->rhos(), -20.0f);
    const auto outputs = predictions(*model, batch.get());
    for (std::size_t i = 0; i < outputs.size(); ++i) EXPECT_NEAR(outputs[i], expected[i], 1e-5);
  }
}

// Each example's output of a linear layer is N(xW_μ + b_μ, x²W_σ² + b_σ²).
TEST(Variational, OutputsHaveTheMeanAndVarianceOfTheWeights) {
  const auto model = make_variational(network("linear", {.input_shape = {2}, .outputs = 1, .loss = Loss::mse}), false);
  const std::vector<float> means{1, -2, 0.5f}, deviations{0.3f, 0.1f, 0.2f};
  for (std::size_t i = 0; i < 3; ++i) {
    model->means()[i] = means[i];
    model->rhos()[i] = std::log(deviations[i]);
  }
  constexpr std::size_t kRows = 20000;
  std::vector<float> inputs;
  for (std::size_t row = 0; row < kRows; ++row) inputs.insert(inputs.end(), {2.0f, 1.0f});
  double sum = 0.0, squares = 0.0;
  for (const float y : predictions(*model, {.size = kRows, .inputs = inputs})) {
    sum += y;
    squares += (y - 0.5) * (y - 0.5);
  }
  EXPECT_NEAR(sum / kRows, 2.0 - 2.0 + 0.5, 0.02);
  EXPECT_NEAR(squares / kRows, 4 * 0.09 + 0.01 + 0.04, 0.02);
}

TEST(Variational, ReseedingRepeatsTheNoise) {
  const Task task{.input_shape = {6}, .outputs = 4};
  for (const auto* name : {"mlp", "logistic"}) {
    const auto model = started(make_variational(network(name, task), false), -2.0f);
    const RandomBatch batch(5, task);
    model->reseed(Stream(1, "a"));
    const auto first = predictions(*model, batch.get()), second = predictions(*model, batch.get());
    model->reseed(Stream(1, "a"));
    EXPECT_EQ(predictions(*model, batch.get()), first);
    EXPECT_NE(first, second);
  }
}

TEST(Variational, SeveralDrawsAreAveraged) {
  const Task task{.input_shape = {6}, .outputs = 4};
  const auto model = started(make_variational(network("logistic", task), false), -1.0f);
  const RandomBatch batch(5, task);
  const std::size_t last = model->layout().size() - 1;
  model->reseed(Stream(1, "a"));
  double loss = model->backward(batch.get());
  float gradient = model->gradients()[last];
  loss += model->backward(batch.get());
  gradient += model->gradients()[last];
  model->reseed(Stream(1, "a"));
  model->set_draws(2);
  EXPECT_DOUBLE_EQ(model->backward(batch.get()), loss / 2);
  EXPECT_FLOAT_EQ(model->gradients()[last], gradient / 2);
}

TEST(Variational, RefusesDropout) {
  const auto dropped = [] {
    make_variational(network("mlp", {.input_shape = {3}, .outputs = 2}, {{"dropout", 0.5}}), false);
  };
  EXPECT_THROW(dropped(), InputError);
}

}  // namespace
}  // namespace parley
