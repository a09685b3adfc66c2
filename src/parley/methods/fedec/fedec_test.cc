// Known answers: FeDEC's weights, its inference, and the special cases in which it is another method.
#include "parley/methods/fedec/fedec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "parley/base/errors.h"
#include "parley/engine/test_bed.h"
#include "parley/methods/fedec/inference.h"
#include "parley/methods/fedec/weights.h"

namespace parley {
namespace {

using Settings = TestBed::Settings;

const TestBed::Quadratics kThree{.h = {{2, .5f}, {.1f, 5}, {1, 1}},
                                 .m = {{1, 1}, {-1, 3}, {.5f, 4}},
                                 .copies = {2, 3, 5},
                                 .spread = {{.5f, .1f}, {.2f, 1}, {1, 3}}};

Settings fedec(const std::string& weights, const std::string& bn_variance, bool norm = true) {
  Settings settings = local(0.1, 2);
  settings["method.weights"] = weights;
  settings["method.bn_variance"] = bn_variance;
  if (norm) settings["model.norm"] = std::string("batch");
  return settings;
}
Settings normed() {
  return with(local(0.1, 2), "model.norm", std::string("batch"));
}

void expect_equal(TestBed& a, TestBed& b, std::size_t rounds) {
  a.rounds(rounds);
  b.rounds(rounds);
  EXPECT_TRUE(std::ranges::equal(a.theta(), b.theta()));
}

TEST(Fedec, SizesAsWeightsWithoutBatchNormAreFedAvgBitForBit) {
  TestBed decoupled("fedec", kThree, fedec("size", "pooled", false)), average("fedavg", kThree, local(0.1, 2));
  expect_equal(decoupled, average, 4);
}

TEST(Fedec, UniformWeightsAreFedAvgOfEqualClients) {
  TestBed decoupled("fedec", kThree, fedec("uniform", "mean")), average("fedavg", kThree, normed(), true);
  decoupled.rounds(3);
  average.rounds(3);
  for (std::size_t i = 0; i < average.theta().size(); ++i) EXPECT_FLOAT_EQ(decoupled.theta()[i], average.theta()[i]);
}

TEST(Fedec, SizesAsWeightsAreFedAvgWithItsRuleForVariances) {
  for (const std::string rule : {"pooled", "mixture"}) {
    TestBed decoupled("fedec", kThree, fedec("size", rule)),
        average("fedavg", kThree, with(normed(), "aggregate.running_var", rule));
    expect_equal(decoupled, average, 3);
  }
}

// FeDEC(w/o) is FeDEC without decoupling: where there is no batch norm they are one.
TEST(Fedec, WithoutBatchNormThereIsNothingToDecouple) {
  TestBed decoupled("fedec", kThree, fedec("uniform", "pooled", false)),
      coupled("fedec", kThree, fedec("uniform", "mean", false));
  expect_equal(decoupled, coupled, 3);
}

TEST(Fedec, OneClientInIsThatClientOutWithItsVariances) {
  const TestBed::Quadratics one{.h = {{2, .5f}}, .m = {{1, 30}}, .copies = {4}, .spread = {{.3f, .01f}}};
  TestBed average("fedavg", one, normed());
  average.rounds(3);
  for (const char* weights : {"match", "elbo", "size", "uniform"}) {
    for (const char* rule : {"pooled", "mixture", "literal", "mean"}) {
      TestBed bed("fedec", one, fedec(weights, rule));
      bed.rounds(3);
      for (std::size_t i = 0; i < bed.theta().size(); ++i) {
        EXPECT_FLOAT_EQ(bed.theta()[i], average.theta()[i]) << weights << " " << rule << " " << i;
      }
    }
  }
}

// Why Eq. 5 is not used as it is printed: clients with the same data have its variance divided by their number.
TEST(Fedec, TheLiteralVarianceShrinksWithTheNumberOfClients) {
  const TestBed::Quadratics same{
      .h = {{2}, {2}, {2}}, .m = {{1}, {1}, {1}}, .copies = {4, 4, 4}, .spread = {{3}, {3}, {3}}};
  TestBed literal("fedec", same, fedec("uniform", "literal")), pooled("fedec", same, fedec("uniform", "pooled"));
  literal.round(1);
  pooled.round(1);
  const auto* entry = pooled.layout().find("norm.running_var");
  EXPECT_NEAR(entry->of(pooled.theta())[1], 9.0, 1e-5);
  EXPECT_NEAR(entry->of(literal.theta())[1], 3.0, 1e-5);
}

TEST(FedecWeights, MatchGivesOneHotClientsTheTarget) {
  const ClientRows z{3, {1, 0, 0, 0, 1, 0, 0, 0, 1}};
  const std::vector<double> target{.5, .3, .2}, start{1, 5, 2};
  const auto pi = match_weights(z, target, start);
  for (std::size_t k = 0; k < 3; ++k) EXPECT_NEAR(pi[k], target[k], 1e-9);
}

// Two clients hold class 0 and one holds class 1: together the two must weigh as much as the one.
TEST(FedecWeights, MatchSharesAClassAmongItsHoldersBySize) {
  const ClientRows z{2, {1, 0, 1, 0, 0, 1}};
  const auto pi = match_weights(z, std::vector<double>{.5, .5}, std::vector<double>{30, 10, 10});
  EXPECT_NEAR(pi[0], .375, 1e-9);
  EXPECT_NEAR(pi[1], .125, 1e-9);
  EXPECT_NEAR(pi[2], .5, 1e-9);
}

// With the size-weighted mean of the z as target, the sizes are already optimal.
TEST(FedecWeights, SizesMatchTheirOwnMixture) {
  const ClientRows z{3, {.7, .2, .1, .1, .8, .1, .3, .3, .4, .05, .05, .9}};
  const std::vector<double> sizes{.1, .2, .3, .4};
  std::vector<double> target(3, 0.0);
  for (std::size_t k = 0; k < 4; ++k) {
    for (std::size_t c = 0; c < 3; ++c) target[c] += sizes[k] * z.row(k)[c];
  }
  const auto pi = match_weights(z, target, sizes);
  for (std::size_t k = 0; k < 4; ++k) EXPECT_NEAR(pi[k], sizes[k], 1e-9);
}

TEST(FedecWeights, AClassThatNobodyHoldsDoesNotDisturbTheRest) {
  const ClientRows z{3, {1, 0, 0, 0, 1, 0}};
  const auto pi = match_weights(z, std::vector<double>(3, 1.0 / 3), std::vector<double>{1, 3});
  EXPECT_NEAR(pi[0], .5, 1e-9);
  EXPECT_NEAR(pi[1], .5, 1e-9);
}

TEST(FedecWeights, Elbo) {
  const auto pi = elbo_weights(std::vector<double>{-1.0, -1.0 - 0.1 * std::log(4.0)}, 0.1);
  EXPECT_NEAR(pi[0], .8, 1e-9);
  EXPECT_NEAR(pi[1], .2, 1e-9);
}

// Nine clients of three classes: the first eight each have one with this share, the last has all alike. Their moments
// are exact mixtures of the classes'.
ClientRows moments_of_mixtures(double purity, std::size_t moments) {
  constexpr std::size_t kClasses = 3, kClients = 9;
  Stream stream(5, "mixtures");
  std::vector<std::vector<double>> prototypes(kClasses, std::vector<double>(moments));
  for (auto& prototype : prototypes) {
    for (double& x : prototype) x = 10.0 * stream.normal() + 3.0;
  }
  ClientRows rows{moments, std::vector<double>(kClients * moments, 0.0)};
  for (std::size_t k = 0; k < kClients; ++k) {
    for (std::size_t c = 0; c < kClasses; ++c) {
      const double share = k == 8 ? 1.0 / 3 : c == k % kClasses ? purity : (1.0 - purity) / 2;
      for (std::size_t i = 0; i < moments; ++i) rows.values[k * moments + i] += share * prototypes[c][i];
    }
  }
  return rows;
}

Inferred infer(const InferenceOptions& options, const ClientRows& moments, std::uint64_t seed = 1) {
  const Inference inference(options, moments.columns);
  Stream stream(seed, "fedec");
  Flat weights = inference.initial(moments, stream);
  return inference.infer(moments, weights, stream);
}

std::size_t largest(std::span<const double> row) {
  return static_cast<std::size_t>(std::ranges::max_element(row) - row.begin());
}

class FedecInference : public testing::TestWithParam<std::size_t> {
 protected:
  const InferenceOptions options_{.classes = 3, .steps = 300, .lr = 0.02, .kl = 0.01, .hidden = GetParam()};
};

TEST_P(FedecInference, TellsClientsOfDifferentClassesApart) {
  const Inferred inferred = infer(options_, moments_of_mixtures(0.95, 12));
  std::set<std::size_t> classes;
  for (std::size_t k = 0; k < 8; ++k) {
    const auto row = inferred.z.row(k);
    EXPECT_NEAR(std::accumulate(row.begin(), row.end(), 0.0), 1.0, 1e-5);
    EXPECT_EQ(largest(row), largest(inferred.z.row(k % 3))) << k;
    classes.insert(largest(row));
  }
  EXPECT_EQ(classes.size(), 3u);
  EXPECT_LT(inferred.reconstruction, 0.2);
}

TEST_P(FedecInference, FollowsFromTheSeedAlone) {
  const ClientRows moments = moments_of_mixtures(0.9, 8);
  EXPECT_EQ(infer(options_, moments, 1).z, infer(options_, moments, 1).z);
  EXPECT_NE(infer(options_, moments, 1).z, infer(options_, moments, 2).z);
}

TEST_P(FedecInference, MomentsThatAreTheSameForAllPlayNoPart) {
  const auto with_constants = [&](double third, double fifth) {
    ClientRows moments = moments_of_mixtures(0.9, 8);
    for (std::size_t k = 0; k < moments.rows(); ++k) {
      moments.values[k * 8 + 3] = third * (1.0 + 1e-15 * static_cast<double>(k % 2));  // the same but for rounding
      moments.values[k * 8 + 5] = fifth;
    }
    return infer(options_, moments).z;
  };
  const ClientRows z = with_constants(1e9, 0.7);
  for (const double share : z.values) EXPECT_TRUE(std::isfinite(share));
  EXPECT_EQ(with_constants(0.0, -3.0), z);
}

TEST_P(FedecInference, TheGradientIsThatOfTheLoss) {
  const ClientRows moments = moments_of_mixtures(0.8, 6);
  const Inference inference(options_, 6);
  Stream start(1, "fedec");
  Flat weights = inference.initial(moments, start), gradient(weights.size()), unused(weights.size());
  const auto loss = [&](Flat& into) {
    Stream noise(7, "noise");  // the same draw every time
    return inference.loss(moments, weights, noise, into);
  };
  loss(gradient);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    constexpr float kStep = 1e-2f;
    const float kept = std::exchange(weights[i], weights[i] + kStep);
    const double above = loss(unused);
    weights[i] = kept - kStep;
    const double below = loss(unused);
    weights[i] = kept;
    EXPECT_NEAR(gradient[i], (above - below) / (2.0 * kStep), 2e-4) << "weight " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Decoders, FedecInference, testing::Values(0, 16),
                         [](const auto& test) { return test.param == 0 ? "Linear" : "Mlp"; });

// With a pure client of each class, and hardly any prior, the mixtures are what they are.
TEST(FedecInferenceOracle, RecoversTheMixturesWhereSomeClientsArePure) {
  const Inferred inferred = infer({.classes = 3, .steps = 1000, .lr = 0.02, .kl = 1e-4}, moments_of_mixtures(1.0, 30));
  for (std::size_t k = 0; k < 8; ++k) EXPECT_GT(inferred.z.row(k)[largest(inferred.z.row(k))], 0.9) << k;
  for (const double share : inferred.z.row(8)) EXPECT_NEAR(share, 1.0 / 3, 0.15);
}

TEST(Fedec, EveryClientsReportIsKeptAndCounted) {
  TestBed bed("fedec", kThree, fedec("match", "pooled"));
  const Schema schema = bed.method().schema();
  for (const auto& channel : schema.channels) EXPECT_EQ(channel.weighting, Weighting::each) << channel.name;
  const Update update = bed.train(1, 0);
  const std::size_t norm_channels = 4;
  EXPECT_EQ(update.wire_bytes(), framed(4, 0, (bed.theta().size() + 2 * norm_channels + 1) * sizeof(float)));
}

TEST(Fedec, WhatIsInferredIsInTheState) {
  TestBed bed("fedec", kThree, with(fedec("match", "pooled"), "method.classes", std::int64_t{3}));
  bed.rounds(2);
  const auto z = bed.state().at("class_distribution");
  ASSERT_EQ(z.size(), 9u);
  for (std::size_t k = 0; k < 3; ++k) EXPECT_NEAR(z[3 * k] + z[3 * k + 1] + z[3 * k + 2], 1.0, 1e-5);
}

// A report is judged beside the last ones of all other clients, so that a cohort of one can be told from the others.
TEST(Fedec, KnowsAClientThatTakesPartAlone) {
  const TestBed::Quadratics kinds{.h = {{1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
                                  .m = {{0, 0}, {9, 1}, {1, 9}, {.1f, 0}, {9, 1.1f}, {1.1f, 9}},
                                  .copies = {4, 4, 4, 4, 4, 4},
                                  .spread = {{.1f, .1f}, {.1f, .1f}, {.1f, .1f}, {.1f, .1f}, {.1f, .1f}, {.1f, .1f}}};
  auto settings = with(fedec("match", "pooled"), "method.classes", std::int64_t{3});
  settings["method.report_rounds"] = std::int64_t{12};
  TestBed bed("fedec", kinds, settings);
  for (std::size_t round = 1; round <= 12; ++round) bed.round(round, {round % 6});
  const auto z = bed.state().at("class_distribution");
  const auto likeliest = [&](std::size_t k) {
    const auto row = z.subspan(3 * k, 3);
    return std::ranges::max_element(row) - row.begin();
  };
  for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(likeliest(k), likeliest(k + 3)) << k;
  EXPECT_EQ((std::set{likeliest(0), likeliest(1), likeliest(2)}.size()), 3u);
}

// A dense layer with a norm behind it, whose running statistics drift with every batch of training.
class DenseAndNorm final : public Model {
 public:
  DenseAndNorm()
      : layout_({{.name = "fc1.weight", .shape = {2, 2}},
                 {.name = "fc1.bias", .shape = {2}, .role = Role::bias},
                 {.name = "norm1.weight", .shape = {2}, .role = Role::norm_scale},
                 {.name = "norm1.running_mean", .shape = {2}, .role = Role::running_mean},
                 {.name = "norm1.running_var", .shape = {2}, .role = Role::running_var}}),
        layers_{{layout_.entries()[0], layout_.entries()[1]}},
        parameters_(layout_.size(), 0.0f),
        gradients_(layout_.size(), 0.0f) {}
  const Layout& layout() const override { return layout_; }
  std::span<float> parameters() override { return parameters_; }
  std::span<float> gradients() override { return gradients_; }
  std::size_t outputs() const override { return 2; }
  Loss loss() const override { return Loss::cross_entropy; }
  std::span<const Layer> layers() const override { return layers_; }
  void observe(LayerObserver observer) override { observer_ = std::move(observer); }
  double backward(const Batch& batch) override {
    std::ranges::fill(gradients_, 1.0f);
    for (std::size_t i = layout_.trainable(); i < parameters_.size(); ++i) parameters_[i] += batch.inputs[0];
    return 1.0;
  }
  void predict(const Batch& batch, std::span<float> outputs) override {
    std::ranges::fill(outputs, 0.0f);
    if (observer_) observer_({0, layers_[0], batch.size, 1, batch.inputs, {}});
  }

 private:
  Layout layout_;
  std::vector<Layer> layers_;
  Flat parameters_, gradients_;
  LayerObserver observer_;
};

// Clients 0 and 1 hold one class each, client 2 three of the first and one of the second.
const TestBed::Classification kMixed{
    .x = {{{1, 2}, {3, 0}}, {{-1, 1}, {0, 5}}, {{1, 2}, {3, 0}, {1, 2}, {3, 0}, {-1, 1}, {0, 5}}},
    .labels = {{0, 0}, {1, 1}, {0, 0, 0, 0, 1, 1}},
    .classes = 2};

TEST(Fedec, ReportsAreMomentsAtTheBroadcastModel) {
  TestBed bed("fedec", kMixed, fedec("match", "mean", false), [] { return std::make_unique<DenseAndNorm>(); });
  const std::vector<float> weights{.5f, -1, 2, .25f, .1f, -.2f};  // [W, b]
  std::ranges::copy(weights, bed.theta().begin());
  const Update first = bed.train(1, 0), second = bed.train(1, 1), mixed = bed.train(1, 2);
  const double by_hand[] = {(.5 - 2 + .1 + 1.5 + .1) / 2, (2 + .5 - .2 + 6 - .2) / 2, ((-1.4) * (-1.4) + 1.6 * 1.6) / 2,
                            (2.3 * 2.3 + 5.8 * 5.8) / 2};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(first["fedec_moments"][i], by_hand[i], 1e-5) << i;
    // Linear in the class distribution.
    EXPECT_NEAR(mixed["fedec_moments"][i], (2 * first["fedec_moments"][i] + second["fedec_moments"][i]) / 3, 1e-5);
  }
}

// Clients 0 and 2 share class 0 unevenly: π on (class 0, class 1) of (1, 0), (0, 1) and (⅔, ⅓) for a uniform mix.
TEST(Fedec, MatchesWithWhatClientsTellItTheyHold) {
  TestBed bed("fedec", kMixed, with(fedec("match", "mean", false), "method.classes_from", std::string("labels")),
              [] { return std::make_unique<DenseAndNorm>(); });
  const Update mixed = bed.train(1, 2);
  EXPECT_NEAR(mixed["told_classes"][0], 2.0 / 3, 1e-6);
  const auto pi =
      match_weights({2, {1, 0, 0, 1, 2.0 / 3, 1.0 / 3}}, std::vector<double>{.5, .5}, std::vector<double>{2, 2, 6});
  EXPECT_NEAR(pi[0] + 2.0 / 3 * pi[2], .5, 1e-6);
  Sum sum(bed.schema());
  double expected = 0.0;
  for (std::size_t k = 0; k < 3; ++k) {
    Update update = bed.train(1, k);
    update["theta"][0] = static_cast<float>(k);
    expected += pi[k] * static_cast<double>(k);
    sum.add(update);
  }
  bed.serve(1, sum);
  EXPECT_NEAR(bed.theta()[0], expected, 1e-5);
}

// A report of another round is another model's. (The statistics of this model do not depend on its weights.)
TEST(Fedec, OldReportsDoNotCount) {
  TestBed::Quadratics other = kThree;
  other.m[0] = {40, -20};
  const auto of_the_second = [](const TestBed::Quadratics& problem, std::int64_t rounds) {
    TestBed bed("fedec", problem, with(fedec("match", "pooled"), "method.report_rounds", rounds));
    bed.round(1, {0});
    bed.round(2, {1, 2});
    const auto z = bed.state().at("class_distribution");
    return Flat(z.begin() + static_cast<std::ptrdiff_t>(z.size() / 3), z.end());
  };
  EXPECT_EQ(of_the_second(kThree, 1), of_the_second(other, 1));
  EXPECT_NE(of_the_second(kThree, 2), of_the_second(other, 2));
}

TEST(Fedec, CarriesTheOptimisersStateBesideItsChannels) {
  TestBed bed("fedec", kThree,
              with(with(fedec("uniform", "mean", false), "client.optimizer", std::string("momentum")), "client.state",
                   std::string("central")));
  bed.rounds(2);
  EXPECT_TRUE(std::ranges::any_of(bed.state().at("slot1"), [](float x) { return x != 0.0f; }));
}

TEST(Fedec, NegativeVariancesAreRefused) {
  TestBed bed("fedec", kThree, fedec("match", "mean"));
  const Schema schema = bed.method().schema();
  Update update = bed.train(1, 0);
  update.channels()[schema.channel("running_var")][0] = -1.0f;
  EXPECT_THROW(update.check(schema), RefusedUpdate);
}

TEST(Fedec, RefusesWhatItCannotInferFrom) {
  const auto refused = [](const Settings& settings) {
    try {
      TestBed bed("fedec", kThree, settings);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused(fedec("match", "pooled", false)),
            "method.weights = \"match\": fedec infers them from running statistics, and the model has none (no batch "
            "norm); use \"size\" or \"uniform\", or a model with batch norm (lenet, cnn4, …)");
  EXPECT_EQ(refused(fedec("size", "literal", false)),
            "method.bn_variance = \"literal\": the model has no running variances (no batch norm); use \"mean\"");
  EXPECT_EQ(refused(with(fedec("match", "pooled"), "aggregate.running_var", std::string("mixture"))),
            "aggregate.running_var = \"mixture\": fedec has a rule of its own; set method.bn_variance, or use fedavg");
}

}  // namespace
}  // namespace parley
