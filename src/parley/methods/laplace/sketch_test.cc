// laplace whose A are sketches: what is exact, what does not depend on the split, and what travels.
#include <gtest/gtest.h>

#include <cmath>

#include "parley/engine/test_bed.h"
#include "parley/gauss/matrix_product.h"
#include "parley/gauss/sketch.h"
#include "parley/model/mlp.h"

namespace parley {
namespace {

using Settings = TestBed::Settings;

constexpr std::size_t kFeatures = 8, kHidden = 5, kClasses = 3;

std::unique_ptr<Model> net() {
  return make_native_mlp({.widths = {kFeatures, kHidden, kClasses}, .activation = Activation::tanh});
}

// Examples of three classes, whose features are mixtures of `sources` numbers each.
TestBed::Classification mixtures(std::size_t sources, const std::vector<std::size_t>& sizes) {
  Stream stream(21, "mixtures");
  std::vector<double> mixing(kFeatures * sources);
  for (double& x : mixing) x = stream.normal() / std::sqrt(static_cast<double>(sources));
  TestBed::Classification problem{.x = {}, .labels = {}, .classes = kClasses};
  std::int32_t label = 0;
  for (const std::size_t size : sizes) {
    problem.x.emplace_back();
    problem.labels.emplace_back();
    for (std::size_t i = 0; i < size; ++i, label = (label + 1) % static_cast<std::int32_t>(kClasses)) {
      std::vector<double> source(sources);
      for (double& x : source) x = stream.normal();
      source[0] += label;
      std::vector<float> x(kFeatures, 0.0f);
      for (std::size_t j = 0; j < kFeatures * sources; ++j) {
        x[j / sources] += static_cast<float>(mixing[j] * source[j % sources]);
      }
      problem.x.back().push_back(x);
      problem.labels.back().push_back(label);
    }
  }
  return problem;
}

Settings settings(std::int64_t rank, std::int64_t warm) {
  Settings all = local(0.1, 3);
  all["method.warm"] = warm;
  all["method.agreement"] = 1.0;
  all["method.rank"] = rank;
  all["method.factor_bits"] = std::int64_t{32};
  return all;
}

Flat after(const TestBed::Classification& problem, const Settings& how, std::size_t rounds) {
  TestBed bed("laplace", problem, how, net);
  Stream stream(22, "weights");
  for (float& w : bed.theta()) w = static_cast<float>(0.5 * stream.normal());
  bed.rounds(rounds);
  return {bed.theta().begin(), bed.theta().end()};
}

double distance(const Flat& a, const Flat& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - double{b[i]}, 2);
  return std::sqrt(sum);
}

// With the bias the inputs span three directions, so six are enough: the hidden layer's five and one are whole. The
// other layer is narrower than that.
TEST(LaplaceSketch, OfEnoughDirectionsTakesTheStepsOfTheWholeMatrix) {
  const auto problem = mixtures(2, {20, 20, 20});
  for (const std::int64_t warm : {0, 2}) {
    const Flat whole = after(problem, settings(64, warm), 4), sketched = after(problem, settings(6, warm), 4);
    const Flat rough = after(problem, settings(1, warm), 4);
    EXPECT_LT(distance(sketched, whole), 2e-3) << warm;
    EXPECT_GT(distance(rough, whole), 2e-2) << "one direction is too few";
  }
}

TEST(LaplaceSketch, OfAnyRankGivesTheSameStepsForAnySplit) {
  const auto together = mixtures(8, {60});
  Flat pooled = after(together, settings(3, 0), 4);
  for (const std::vector<std::size_t>& sizes : {std::vector<std::size_t>{20, 20, 20}, {1, 58, 1}, {30, 30}}) {
    EXPECT_LT(distance(after(mixtures(8, sizes), settings(3, 0), 4), pooled), 1e-3);
  }
}

TEST(LaplaceSketch, TravelsAsFewerNumbersAndSurvivesTheWire) {
  const auto problem = mixtures(4, {20});
  for (const std::int64_t bits : {32, 16, 8}) {
    Settings how = settings(2, 0);
    how["method.factor_bits"] = bits;
    TestBed bed("laplace", problem, how, net);
    const Update sent = bed.train(1, 0);
    EXPECT_EQ(sent["inputs"].size(), sketch_size(kFeatures + 1, 2) + sketch_size(kHidden + 1, 2));
    const Update read = Update::decode(sent.encode(), bed.schema(), Broadcast(bed.state(), 1));
    EXPECT_EQ(read.channels(), sent.channels()) << bits;
  }
}

// Wide layers are sketched without being asked; others are whole.
TEST(LaplaceSketch, IsOfWideLayersByItself) {
  const auto numbers = [](std::size_t features) {
    const TestBed::Classification problem{
        .x = {{std::vector<float>(features, 1.0f)}}, .labels = {{0}}, .classes = kClasses};
    TestBed bed("laplace", problem, {}, [&] { return make_native_mlp({.widths = {features, kClasses}}); });
    return bed.schema()->channels[bed.schema()->channel("inputs")].size();
  };
  EXPECT_EQ(numbers(1023), packed_size(1024));
  EXPECT_EQ(numbers(1024), sketch_size(1025, 256));
}

TEST(LaplaceSketch, GoesWithDrawsEvidenceAndOwnSteps) {
  const auto problem = mixtures(4, {20, 30});
  for (const auto& [key, value] : std::map<std::string, Value>{{"method.evidence", true},
                                                               {"method.curvature", std::string("input")},
                                                               {"method.personal_steps", std::int64_t{2}},
                                                               {"method.local_steps", std::int64_t{2}},
                                                               {"method.positions", std::string("reduce")}}) {
    Settings how = settings(2, 1);
    how["method.factors_every"] = std::int64_t{1};
    how[key] = value;
    TestBed bed("laplace", problem, how, net);
    bed.rounds(4);
    Flat drawn(bed.theta().size());
    Stream stream(3, "draw");
    bed.method().posterior()->draw(bed.state(), {.examples = 50, .scale = 1.0, .prior_precision = 1.0}, stream, drawn);
    for (const float w : drawn) EXPECT_TRUE(std::isfinite(w)) << key;
  }
}

}  // namespace
}  // namespace parley
