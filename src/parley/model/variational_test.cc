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

// METHODS.md §3, oracle 7: with the noise fixed the loss is a function of means and ρ.
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

}  // namespace
}  // namespace parley
