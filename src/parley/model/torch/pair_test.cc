#include "parley/model/torch/pair.h"

#include <gtest/gtest.h>

#include "parley/model/torch/test_tools.h"
#include "parley/model/variational.h"

namespace parley {
namespace {

using testing::copy;
using testing::largest_difference;
using testing::make;
using testing::predict;
using testing::RandomBatch;
using testing::RandomText;
using testing::refusal;

struct Case {
  std::string name;
  Task task;
  std::map<std::string, Value> options = {};

  std::unique_ptr<Model> plain() const { return make(name, "torch", task, options); }
  std::unique_ptr<Variational> paired() const { return make_variational(plain(), true); }
};

const Task kImages{.input_shape = {1, 8, 8}, .outputs = 3}, kTexts{.input_shape = {5}, .outputs = 6};
const std::map<std::string, Value> kSmall{
    {"vocabulary", std::int64_t{7}}, {"embedding", std::int64_t{3}}, {"hidden", std::int64_t{4}}};

std::map<std::string, Value> small_with(const std::string& key, const std::string& value) {
  auto options = kSmall;
  options[key] = value;
  return options;
}

const std::vector<Case> kCases{
    {"mlp", kImages, {{"hidden", std::vector<std::int64_t>{7, 5}}, {"activation", std::string("tanh")}}},
    {"cnn_mnist", kImages},
    {"lenet", kImages, {{"norm", std::string("group")}}},
    {"bilstm", kTexts, kSmall},
    {"char_lstm", kTexts, kSmall},
    {"char_lstm", kTexts, small_with("loss_at", "every")}};

class Beside : public ::testing::TestWithParam<Case> {
 protected:
  // Two examples of the task.
  Batch batch(std::uint64_t seed = 1) {
    if (GetParam().task.input_shape.size() == 1) return text_.get();
    images_.emplace(2, GetParam().task, seed);
    return images_->get();
  }

  // The shared means of a fresh network, private ones anywhere, and every ρ the same.
  static std::unique_ptr<Variational> drawn(float rho) {
    auto model = GetParam().paired();
    testing::initialise(*model);
    std::ranges::fill(model->rhos(), rho);
    return model;
  }

  static std::span<float> mean_of(Variational& model, const std::string& name) {
    return model.layout().find(name)->of(model.parameters());
  }

  static std::vector<std::string> gates(const Variational& model) {
    std::vector<std::string> names;
    for (const auto& entry : model.layout().entries()) {
      if (entry.name.starts_with("private/") && entry.name.ends_with("gate")) names.push_back(entry.name);
    }
    return names;
  }

  static void close_gates(Variational& model) {
    for (const auto& gate : gates(model)) mean_of(model, gate)[0] = 0.0f;
  }

 private:
  RandomText text_{2, kTexts, 7};
  std::optional<RandomBatch> images_;
};

// ‖g − fd‖/‖fd‖ over one number of every tensor, so that none is missed; the noise is fixed.
double error_over_all_tensors(Variational& model, const Batch& batch) {
  const auto loss = [&] {
    model.reseed(Stream(3, "noise"));
    return model.backward(batch);
  };
  loss();
  const auto gradients = copy(model.gradients());
  double error = 0.0, norm = 0.0;
  for (const auto& entry : model.layout().entries()) {
    if (!is_trainable(entry.role)) continue;
    constexpr float kStep = 4e-3f;
    const std::size_t i = entry.offset + entry.size / 2;
    float& x = model.parameters()[i];
    const float before = x;
    x = before + kStep;
    const double up = loss();
    x = before - kStep;
    const double down = loss();
    x = before;
    const double expected = (up - down) / (2.0 * kStep);
    error += (gradients[i] - expected) * (gradients[i] - expected);
    norm += expected * expected;
  }
  return std::sqrt(error / norm);
}

TEST_P(Beside, HasTheGradientOfItsDraw) {
  const auto model = drawn(-2.5f);
  double error = 1.0;
  for (std::uint64_t seed = 1; seed <= 5 && error > 1e-2; ++seed) {  // a relu's kink is no derivative
    error = std::min(error, error_over_all_tensors(*model, batch(seed)));
  }
  EXPECT_LT(error, 1e-2);
}

// σ → 0, and a private part as it starts: the network itself.
TEST_P(Beside, ANewClientPredictsWhatTheServerDoes) {
  const auto plain = GetParam().plain();
  const auto model = GetParam().paired();
  std::ranges::copy(plain->parameters(), model->means().begin());
  Stream stream(3, "private");
  model->start_private(stream, model->means().subspan(model->shared()));
  std::ranges::fill(model->rhos(), -20.0f);
  EXPECT_LT(largest_difference(predict(*model, batch()), predict(*plain, batch())), 1e-5);
}

TEST_P(Beside, HearsTheSharedNetworkThroughEachGate) {
  const auto model = drawn(-20.0f);
  const auto heard = [&] {  // what other shared weights change
    const auto before = copy(model->means());
    const auto outputs = predict(*model, batch());
    for (float& mean : model->means().first(model->shared())) mean *= 1.5f;
    const double difference = largest_difference(predict(*model, batch()), outputs);
    std::ranges::copy(before, model->means().begin());
    return difference;
  };
  close_gates(*model);
  EXPECT_LT(heard(), 1e-6);
  for (const auto& gate : gates(*model)) {
    mean_of(*model, gate)[0] = 1.0f;
    EXPECT_GT(heard(), 1e-4) << gate;
    mean_of(*model, gate)[0] = 0.0f;
  }
}

// With gates at 0, the own network is a network like any other.
TEST_P(Beside, WithClosedGatesIsTheOwnNetworkAlone) {
  const auto plain = GetParam().plain();
  const auto model = drawn(-20.0f);
  close_gates(*model);
  for (const auto& entry : plain->layout().entries()) {
    const auto weights = entry.of(plain->parameters());
    const LayoutEntry* own = model->layout().find("private/" + entry.name);
    if (own != nullptr) {
      std::ranges::copy(weights, mean_of(*model, own->name).begin());
      continue;
    }
    // lstm.weight_ih_l1 is lstm2.weight_ih_l0 there, with columns for what is heard.
    const bool second = entry.name.find("_l1") != std::string::npos;
    std::string name = fmt::format("private/lstm{}{}", second ? 2 : 1, entry.name.substr(std::strlen("lstm")));
    if (second) name.replace(name.find("_l1"), 3, "_l0");
    own = model->layout().find(name);
    ASSERT_NE(own, nullptr) << name;
    const std::size_t rows = static_cast<std::size_t>(entry.shape[0]), from = entry.size / rows, to = own->size / rows;
    for (std::size_t row = 0; row < rows; ++row) {
      std::ranges::copy(weights.subspan(row * from, from), mean_of(*model, name).subspan(row * to, to).begin());
    }
  }
  EXPECT_LT(largest_difference(predict(*model, batch()), predict(*plain, batch())), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(EveryKind, Beside, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return fmt::format("{}_{}", test.param.name, test.index); });

// The native form of the same network, written by hand, beside LibTorch's: predictions and gradients at σ → 0.
TEST(BesideAnMlp, AgreesWithTheNativeForm) {
  const std::map<std::string, Value> options{{"hidden", std::vector<std::int64_t>{7, 5}}};
  const auto native = make_variational(make("mlp", "native", kImages, options), true);
  const auto torch = make_variational(make("mlp", "torch", kImages, options), true);
  ASSERT_EQ(native->gaussians(), torch->gaussians());
  testing::initialise(*native);
  std::ranges::fill(native->rhos(), -20.0f);
  std::ranges::fill(torch->rhos(), -20.0f);
  const auto twin = [&](const std::string& name) {
    for (const int layer : {1, 2, 3}) {
      if (name == fmt::format("private/fc{}.lateral", layer)) return fmt::format("private/lateral{}.map.weight", layer);
      if (name == fmt::format("private/fc{}.gate", layer)) return fmt::format("private/lateral{}.gate", layer);
    }
    return name;
  };
  const auto each_mean = [&](auto use) {
    for (const auto& entry : native->layout().entries()) {
      if (!entry.name.starts_with("rho/")) use(entry, *torch->layout().find(twin(entry.name)));
    }
  };
  each_mean([&](const LayoutEntry& from, const LayoutEntry& to) {
    std::ranges::copy(from.of(native->parameters()), to.of(torch->parameters()).begin());
  });
  const RandomBatch batch(6, kImages);
  EXPECT_LT(largest_difference(predict(*native, batch.get()), predict(*torch, batch.get())), 1e-5);
  EXPECT_NEAR(native->backward(batch.get()), torch->backward(batch.get()), 1e-5);
  each_mean([&](const LayoutEntry& mine, const LayoutEntry& other) {
    EXPECT_LT(largest_difference(mine.of(native->gradients()), other.of(torch->gradients())), 1e-5) << mine.name;
  });
}

TEST(BesideACnn, HasItsEntriesBehindTheSharedOnes) {
  const auto plain = make("cnn_mnist", "torch", kImages);
  const auto model = make_variational(make("cnn_mnist", "torch", kImages), true);
  EXPECT_EQ(model->shared(), plain->layout().trainable());
  for (std::size_t i = 0; i < plain->layout().entries().size(); ++i) {
    EXPECT_EQ(model->layout().entries()[i].name, plain->layout().entries()[i].name);
  }
  EXPECT_EQ(model->layout().find("private/lateral1.map.weight")->shape, (std::vector<std::int64_t>{32, 32, 1, 1}));
  EXPECT_EQ(model->gaussians(), 2 * model->shared() + 4 + 32 * 32 + 64 * 64 + 512 * 512 + 3 * 3);
}

TEST(BesideRefuses, WhatItCannotKeepOrHasNoFormOf) {
  EXPECT_EQ(refusal([] { make_variational(make("lenet", "torch", kImages), true); }),
            "method.private = true: the private part would have running statistics of its own "
            "(private/conv1.norm.running_mean); use model.norm = \"group\", or set false");
  EXPECT_EQ(refusal([] { make_variational(make("cnn_mnist", "native", kImages), true); }),
            "method.private = true: this model has no form with a private part; set false, or use mlp, logistic, "
            "linear, char_lstm, bilstm or, with model.backend = \"torch\", cnn_mnist, cnn_cifar, lenet or cnn4");
}

}  // namespace
}  // namespace parley
