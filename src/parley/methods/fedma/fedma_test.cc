#include "parley/methods/fedma/fedma.h"

#include <gtest/gtest.h>

#include <numeric>

#include "parley/base/errors.h"
#include "parley/engine/test_bed.h"
#include "parley/methods/fedma/matched_average.h"
#include "parley/model/mlp.h"

namespace parley {
namespace {

std::vector<std::size_t> shuffled(std::size_t count, Stream& stream) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  stream.shuffle(std::span(order));
  return order;
}

// The same network with its hidden units in another order.
Flat exchanged(const UnitChain& chain, Flat theta, Stream& stream) {
  for (std::size_t layer = 0; layer < chain.hidden_layers(); ++layer) {
    chain.move_units(theta, layer, shuffled(chain.layers()[layer].units(), stream));
  }
  return theta;
}

Flat random_weights(std::size_t size, Stream& stream) {
  Flat theta(size);
  for (float& x : theta) x = static_cast<float>(stream.normal());
  return theta;
}

Layout small_mlp() {
  return MlpPlan{.widths = {4, 7, 5, 3}}.layout();
}

// Two convolutions with norms, pooled to 2 × 2, and two dense layers.
Layout small_cnn() {
  const auto norm = [](const std::string& name, std::int64_t channels) {
    return std::vector<LayoutEntry>{{.name = name + ".weight", .shape = {channels}, .role = Role::norm_scale},
                                    {.name = name + ".bias", .shape = {channels}, .role = Role::norm_shift},
                                    {.name = name + ".running_mean", .shape = {channels}, .role = Role::running_mean},
                                    {.name = name + ".running_var", .shape = {channels}, .role = Role::running_var},
                                    {.name = name + ".num_batches_tracked", .shape = {}, .role = Role::counter}};
  };
  std::vector<LayoutEntry> entries = {{.name = "conv1.weight", .shape = {6, 3, 5, 5}}};
  const auto append = [&](const std::vector<LayoutEntry>& more) {
    entries.insert(entries.end(), more.begin(), more.end());
  };
  append(norm("bn1", 6));
  append({{.name = "conv2.weight", .shape = {8, 6, 3, 3}}});
  append(norm("bn2", 8));
  append({{.name = "fc1.weight", .shape = {10, 8 * 2 * 2}},
          {.name = "fc1.bias", .shape = {10}, .role = Role::bias},
          {.name = "fc2.weight", .shape = {4, 10}},
          {.name = "fc2.bias", .shape = {4}, .role = Role::bias}});
  return Layout(std::move(entries));
}

TEST(UnitChain, IsReadFromALayout) {
  const auto chain = UnitChain::of(small_cnn());
  ASSERT_TRUE(chain);
  EXPECT_EQ(chain->hidden_layers(), 3u);
  std::vector<std::size_t> vectors;
  for (const auto& layer : chain->layers()) vectors.push_back(layer.vectors.size());
  EXPECT_EQ(vectors, (std::vector<std::size_t>{4, 4, 1, 1}));  // running statistics belong to their convolution
}

TEST(UnitChain, ANormOfTheInputsBelongsToNoLayer) {
  const auto chain = UnitChain::of(Layout({{.name = "norm.weight", .shape = {3}, .role = Role::norm_scale},
                                           {.name = "norm.running_mean", .shape = {3}, .role = Role::running_mean},
                                           {.name = "a.weight", .shape = {6, 3}},
                                           {.name = "b.weight", .shape = {2, 6}}}));
  ASSERT_TRUE(chain);
  EXPECT_TRUE(chain->layers()[0].vectors.empty());
}

TEST(UnitChain, RefusesLayersThatDoNotFollowEachOther) {
  EXPECT_FALSE(UnitChain::of(Layout({{.name = "a.weight", .shape = {6, 3}}, {.name = "b.weight", .shape = {2, 5}}})));
  EXPECT_FALSE(UnitChain::of(Layout({{.name = "a.weight", .shape = {6, 3}}, {.name = "a.bias", .shape = {4}}})));
  EXPECT_TRUE(UnitChain::of(Layout({{.name = "theta", .shape = {3}}})));
}

TEST(UnitChain, ExchangedUnitsOfAnMlpGiveTheSameAnswers) {
  const auto model = make_native_mlp({.widths = {4, 7, 5, 3}});
  const auto chain = UnitChain::of(model->layout());
  EXPECT_TRUE(units_are_exchangeable(*model, *chain, 4));
}

// A network that adds what the first layer gave to what the second gives: the two orders are tied.
class Shortcut final : public Model {
 public:
  const Layout& layout() const override { return layout_; }
  std::span<float> parameters() override { return theta_; }
  std::span<float> gradients() override { return theta_; }
  double backward(const Batch&) override { return 0.0; }
  void predict(const Batch& batch, std::span<float> outputs) override {
    for (std::size_t i = 0; i < batch.size; ++i) {
      const auto x = batch.inputs.subspan(i * 3, 3);
      const auto h = multiply(0, x);
      auto sum = multiply(9, h);
      for (std::size_t j = 0; j < 3; ++j) sum[j] = std::max(0.0f, sum[j]) + h[j];
      std::ranges::copy(multiply(18, sum), outputs.begin() + static_cast<std::ptrdiff_t>(i * 3));
    }
  }
  std::size_t outputs() const override { return 3; }
  Loss loss() const override { return Loss::mse; }

 private:
  std::vector<float> multiply(std::size_t offset, std::span<const float> x) const {
    std::vector<float> y(3, 0.0f);
    for (std::size_t r = 0; r < 3; ++r) {
      for (std::size_t c = 0; c < 3; ++c) y[r] += theta_[offset + 3 * r + c] * x[c];
    }
    return y;
  }
  Layout layout_{{{.name = "a.weight", .shape = {3, 3}},
                  {.name = "b.weight", .shape = {3, 3}},
                  {.name = "c.weight", .shape = {3, 3}}}};
  Flat theta_ = Flat(27, 0.0f);
};

TEST(UnitChain, FindsOutThatAShortcutFixesTheOrder) {
  Shortcut model;
  const auto chain = UnitChain::of(model.layout());
  ASSERT_TRUE(chain);  // its sizes fit
  EXPECT_FALSE(units_are_exchangeable(model, *chain, 3));
}

TEST(MatchedAverage, ExchangedCopiesAreMatchedBackExactly) {
  Stream stream(3, "test");
  for (const Layout& layout : {small_mlp(), small_cnn()}) {
    const auto chain = UnitChain::of(layout);
    const Flat original = random_weights(layout.size(), stream);
    std::vector<WeightedNetwork> networks;
    for (const double weight : {1.0, 5.0, 2.0, 8.0}) networks.push_back({exchanged(*chain, original, stream), weight});
    const auto mean = matched_average(*chain, 0, original, networks);
    for (std::size_t i = 0; i < mean.size(); ++i) ASSERT_NEAR(mean[i], original[i], 1e-6) << i;
    for (const auto& network : networks) EXPECT_EQ(network.theta, original);
  }
}

// Whatever order is asked for, the copies agree with each other.
TEST(MatchedAverage, TheReferenceOnlyGivesTheOrder) {
  Stream stream(4, "test");
  const Layout layout = small_cnn();
  const auto chain = UnitChain::of(layout);
  const Flat original = random_weights(layout.size(), stream), other = random_weights(layout.size(), stream);
  std::vector<WeightedNetwork> networks;
  for (int copy = 0; copy < 3; ++copy) networks.push_back({exchanged(*chain, original, stream), 1.0});
  matched_average(*chain, 0, other, networks);
  EXPECT_EQ(networks[1].theta, networks[0].theta);
  EXPECT_EQ(networks[2].theta, networks[0].theta);
}

TEST(MatchedAverage, SmallDifferencesDoNotMislead) {
  Stream stream(5, "test");
  const Layout layout = small_mlp();
  const auto chain = UnitChain::of(layout);
  const Flat original = random_weights(layout.size(), stream);
  std::vector<WeightedNetwork> networks;
  for (int copy = 0; copy < 20; ++copy) {
    Flat noisy = original;
    for (float& x : noisy) x += static_cast<float>(0.1 * stream.normal());
    networks.push_back({exchanged(*chain, noisy, stream), 1.0});
  }
  const auto mean = matched_average(*chain, 0, original, networks);
  for (std::size_t i = 0; i < mean.size(); ++i) EXPECT_NEAR(mean[i], original[i], 0.12) << i;
}

// Three clients on one regression problem; a hidden layer, so that there is something to match.
const TestBed::Regression kWaves = [] {
  TestBed::Regression waves;
  for (int client = 0; client < 3; ++client) {
    waves.x.emplace_back();
    waves.y.emplace_back();
    for (int i = 0; i < 8; ++i) {
      const float x = -1.0f + 0.25f * static_cast<float>(i) + 0.08f * static_cast<float>(client);
      waves.x.back().push_back({x});
      waves.y.back().push_back({std::sin(3.0f * x)});
    }
  }
  return waves;
}();

class Wave : public TestBed {
 public:
  Wave(const std::string& method, const Settings& settings)
      : TestBed(method, kWaves, settings, [] {
          return make_native_mlp({.widths = {1, 6, 5, 1}, .activation = Activation::tanh, .loss = Loss::mse});
        }) {
    Stream stream(6, "test");
    for (float& x : theta()) x = static_cast<float>(0.7 * stream.normal());
  }
};

TEST(Pfnm, FromACommonStartIsFedAvgWhileUnitsStayApart) {
  Wave matched("pfnm", local(0.01, 1)), mean("fedavg", local(0.01, 1));
  matched.rounds(3);
  mean.rounds(3);
  for (std::size_t i = 0; i < mean.theta().size(); ++i) EXPECT_NEAR(matched.theta()[i], mean.theta()[i], 1e-6);
}

TEST(Pfnm, OwnStartsDifferAndAreThoseOfTheFirstRoundOnly) {
  Wave bed("pfnm", with(local(0.01, 1), "method.own_start", true));
  const Update a = bed.train(1, 0), b = bed.train(1, 1), later = bed.train(2, 0);
  double between = 0.0, from_theta = 0.0;
  for (std::size_t i = 0; i < a.channels()[0].size(); ++i) {
    between += std::abs(a.channels()[0][i] - b.channels()[0][i]);
    from_theta += std::abs(later.channels()[0][i] - bed.theta()[i]);
  }
  EXPECT_GT(between, 1.0);
  EXPECT_LT(from_theta, 1.0);
}

TEST(FedMa, FreezesOneLayerMoreInEachRoundOfAPass) {
  Wave bed("fedma", local(0.05, 5));
  const auto chain = UnitChain::of(MlpPlan{.widths = {1, 6, 5, 1}}.layout());
  for (std::size_t round = 1; round <= 4; ++round) {
    const Flat before(bed.theta().begin(), bed.theta().end());
    const Update update = bed.train(round, 0);
    for (std::size_t layer = 0; layer < 3; ++layer) {
      const auto& weight = chain->layers()[layer].weight;
      const bool same = std::ranges::equal(weight.of(std::span<const float>(update.channels()[0])),
                                           weight.of(std::span<const float>(before)));
      EXPECT_EQ(same, layer < (round - 1) % 3) << "round " << round << ", layer " << layer;
    }
    bed.round(round);
  }
}

TEST(FedMa, AClientGoesOnWithItsOwnUpperLayersAndALateOneWithTheAverage) {
  Wave bed("fedma", with(local(0.05, 20), "client.lr_decay", 1e-9));
  const Update before = bed.train(1, 0);
  Sum sum(bed.schema());
  sum.add(before);
  sum.add(bed.train(1, 1));
  bed.serve(1, sum);
  // The steps of round 2 are next to nothing: a client stays where it starts.
  const auto start = [&](std::size_t client) { return bed.train(2, client).channels()[0]; };
  const auto output = UnitChain::of(bed.layout())->layers()[2].weight;
  const auto near = [&](const Flat& theta, std::span<const float> other) {
    return std::ranges::equal(output.of(std::span<const float>(theta)), output.of(other),
                              [](float a, float b) { return std::abs(a - b) < 1e-6f; });
  };
  EXPECT_TRUE(near(start(0), before.channels()[0]));
  EXPECT_FALSE(near(start(0), bed.theta()));
  EXPECT_TRUE(near(start(2), bed.theta()));
}

// Client 0 holds two examples of class 0 and one of class 1, client 1 three of class 1; nobody holds class 2.
TEST(FedMa, AveragesTheOutputOfAClassByWhoHasIt) {
  const TestBed::Classification problem{
      .x = {{{1, 0}, {0, 1}, {1, 1}}, {{2, 0}, {0, 2}, {2, 2}}}, .labels = {{0, 0, 1}, {1, 1, 1}}, .classes = 3};
  TestBed bed("fedma", problem, local(0.01, 1), [] {
    return make_native_mlp({.widths = {2, 4, 3}, .loss = Loss::cross_entropy});
  });
  Stream stream(7, "test");
  for (float& x : bed.theta()) x = static_cast<float>(stream.normal());
  const Update a = bed.train(1, 0), b = bed.train(1, 1);
  EXPECT_EQ(a["class_counts"], (Flat{2, 1, 0}));
  Sum sum(bed.schema());
  sum.add(a);
  sum.add(b);
  bed.serve(1, sum);
  // One small step from a common start leaves all units in their order.
  const auto bias = UnitChain::of(bed.layout())->layers().back().vectors.at(0);
  const auto of = [&](std::span<const float> theta, std::size_t c) { return double{bias.of(theta)[c]}; };
  const std::span<const float> first(a["theta"]), second(b["theta"]), mean(bed.theta());
  EXPECT_NEAR(of(mean, 0), of(first, 0), 1e-6);
  EXPECT_NEAR(of(mean, 1), (of(first, 1) + 3 * of(second, 1)) / 4, 1e-6);
  EXPECT_NEAR(of(mean, 2), (of(first, 2) + of(second, 2)) / 2, 1e-6);
  EXPECT_GT(std::abs(of(first, 0) - of(second, 0)), 1e-4) << "the clients are too alike to tell";
}

TEST(FedMa, LearnsTheWave) {
  Wave bed("fedma", local(0.1, 20));
  double first = 0.0, last = 0.0;
  for (std::size_t round = 1; round <= 60; ++round) {
    Sum sum(bed.schema());
    for (std::size_t client = 0; client < 3; ++client) sum.add(bed.train(round, client));
    const double loss = sum.training().loss_sum / static_cast<double>(sum.training().examples);
    (round == 1 ? first : last) = loss;
    bed.serve(round, sum);
  }
  EXPECT_LT(last, 0.2 * first);
}

}  // namespace
}  // namespace parley
