#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "parley/model/evaluation.h"
#include "parley/model/losses.h"
#include "parley/model/torch/script_refusal.h"
#include "parley/model/torch/test_tools.h"

namespace parley {
namespace {

using testing::copy;
using testing::gradient_error;
using testing::largest_difference;
using testing::make;
using testing::predict;
using testing::RandomBatch;
using testing::refusal;
using Widths = std::vector<std::int64_t>;

struct Agreement {
  std::string activation;
  double dropout;
  Loss loss;
};

class NativeAndTorch : public ::testing::TestWithParam<Agreement> {};

TEST_P(NativeAndTorch, AgreeToOneInAHundredThousand) {
  const auto& [activation, dropout, loss] = GetParam();
  const Task task{.input_shape = {1, 28, 28}, .outputs = 10, .loss = loss};
  const std::map<std::string, Value> options{
      {"hidden", Widths{50, 30}}, {"activation", activation}, {"dropout", dropout}};
  const auto native = make("mlp", "native", task, options);
  const auto torch = make("mlp", "torch", task, options);
  ASSERT_EQ(native->layout(), torch->layout());
  ASSERT_EQ(copy(native->parameters()), copy(torch->parameters()));
  const RandomBatch batch(32, task);
  for (auto* model : {native.get(), torch.get()}) model->reseed(Stream(5, "noise"));
  for (int step = 0; step < 3; ++step) {
    EXPECT_NEAR(native->backward(batch.get()), torch->backward(batch.get()), 1e-5);
    EXPECT_LT(largest_difference(native->gradients(), torch->gradients()), 1e-5);
  }
  EXPECT_LT(largest_difference(predict(*native, batch.get()), predict(*torch, batch.get())), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(
    EveryActivation, NativeAndTorch,
    ::testing::Values(Agreement{"relu", 0.0, Loss::cross_entropy}, Agreement{"sigmoid", 0.0, Loss::cross_entropy},
                      Agreement{"tanh", 0.0, Loss::cross_entropy}, Agreement{"relu", 0.0, Loss::mse},
                      Agreement{"relu", 0.5, Loss::cross_entropy}, Agreement{"tanh", 0.3, Loss::mse}));

TEST(Losses, AgreeWithLibTorch) {
  const Task classes{.input_shape = {3}, .outputs = 7};
  const Task numbers{.input_shape = {3}, .outputs = 7, .loss = Loss::mse};
  for (const auto& task : {classes, numbers}) {
    const RandomBatch random(11, task);
    const Batch batch = random.get();
    torch::manual_seed(1);
    const auto outputs = torch::randn({11, 7}).mul_(3).requires_grad_();
    std::vector<float> values = copy({outputs.data_ptr<float>(), 77});
    torch::Tensor expected;
    if (task.loss == Loss::cross_entropy) {
      const auto labels = torch::tensor(std::vector<int>(batch.labels.begin(), batch.labels.end()));
      expected = torch::cross_entropy_loss(outputs, labels.to(torch::kLong));
    } else {
      expected = torch::mse_loss(outputs, torch::tensor(copy(batch.targets)).view({11, 7}));
    }
    expected.backward();
    EXPECT_NEAR(loss_and_gradient(task.loss, batch, 7, values), expected.item<double>(), 1e-5);
    EXPECT_LT(largest_difference(values, {outputs.grad().data_ptr<float>(), 77}), 1e-6);
  }
}

TEST(Cnn, HasMcMahansNumberOfParameters) {
  const auto mnist = make("cnn_mnist", "auto", {.input_shape = {1, 28, 28}, .outputs = 10});
  EXPECT_EQ(mnist->layout().size(), 1663370u);
  const auto cifar = make("cnn_cifar", "auto", {.input_shape = {3, 32, 32}, .outputs = 10});
  EXPECT_EQ(cifar->layout().size(), 2156490u);
}

TEST(Cnn, GradientAgreesWithCentralDifferences) {
  // Small images, so that the steps are quick; the best of a few batches, because of the kinks of
  // relu and pooling.
  const Task task{.input_shape = {2, 8, 8}, .outputs = 3};
  const auto model = make("cnn_mnist", "auto", task);
  double error = 1.0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    error = std::min(error, gradient_error(*model, RandomBatch(2, task, seed).get(), 4e-3, 1999));
  }
  EXPECT_LT(error, 1e-2);
}

TEST(Cnn, TakesImagesOnly) {
  EXPECT_EQ(refusal([] { make("cnn_mnist", "auto", {.input_shape = {784}, .outputs = 10}); }),
            "model.name: 'cnn_mnist' needs images of shape [channels, height, width], at least 4 x 4; "
            "the data has [784]: choose 'mlp' or image data");
  EXPECT_EQ(make("cnn_mnist", "auto", {.input_shape = {28, 28}, .outputs = 10})->layout().size(), 1663370u);
}

TEST(TorchModels, GiveTheSameBitsOnAnyThread) {
  const Task task{.input_shape = {1, 12, 12}, .outputs = 10};
  const RandomBatch batch(10, task);
  const auto gradients = [&] {
    const auto model = make("cnn_mnist", "torch", task);
    model->backward(batch.get());
    model->backward(batch.get());
    return copy(model->gradients());
  };
  const auto here = gradients();
  std::vector<float> first, second;
  std::thread one([&] { first = gradients(); }), two([&] { second = gradients(); });
  one.join();
  two.join();
  EXPECT_EQ(first, here);
  EXPECT_EQ(second, here);
}

TEST(TorchModels, RunOnOpenBlas) {
  EXPECT_EQ(torch_blas_warning(), "");
}

TEST(TorchModels, NameTheBackendsThereAre) {
  const Task task{.input_shape = {1, 28, 28}, .outputs = 10};
  EXPECT_EQ(refusal([&] { make("resnet18", "native", task); }),
            "model.backend: unknown backend 'native'; known: auto, torch (for model.name = "
            "\"resnet18\")");
}

// ---- TorchScript ----

class Script : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("parley_script_{}", getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name = "net.pt") const { return folder_ / name; }

  // Wx + b behind batch normalisation, `body` standing for what becomes of y.
  void save(const std::string& body = "return y", std::int64_t outputs = 4) {
    torch::manual_seed(3);
    torch::jit::Module norm("ParleyBatchNorm");
    norm.register_parameter("weight", torch::ones({6}).requires_grad_(), false);
    norm.register_parameter("bias", torch::zeros({6}).requires_grad_(), false);
    norm.register_buffer("running_mean", torch::zeros({6}));
    norm.register_buffer("running_var", torch::ones({6}));
    norm.register_buffer("num_batches_tracked", torch::zeros({}, torch::kLong));
    norm.register_attribute("training", c10::BoolType::get(), true);
    norm.define(R"(
      def forward(self, x):
        if self.training:
          self.num_batches_tracked = self.num_batches_tracked + 1
        return torch.batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var,
                                self.training, 0.1, 1e-5, False)
    )");
    torch::jit::Module net("Net");
    net.register_module("norm", norm);
    net.register_parameter("weight", torch::randn({outputs, 6}).requires_grad_(), false);
    net.register_parameter("bias", torch::randn({outputs}).requires_grad_(), false);
    net.register_attribute("training", c10::BoolType::get(), true);
    net.define(
        "def forward(self, x):\n  y = torch.linear(self.norm.forward(x), self.weight, self.bias)\n "
        " " +
        body + "\n");
    net.save(path());
  }

  std::unique_ptr<Model> load(const Task& task = {.input_shape = {6}, .outputs = 4}) {
    return make("torchscript", "auto", task, {{"path", path()}});
  }

  std::filesystem::path folder_;
  Task task_{.input_shape = {6}, .outputs = 4};
};

TEST_F(Script, MapsParametersAndBuffersIntoTheLayout) {
  save();
  const auto model = load();
  EXPECT_TRUE(model->pretrained());
  EXPECT_FALSE(model->exclusive());
  const auto& layout = model->layout();
  EXPECT_EQ(layout.trainable(), 4u * 6 + 4 + 6 + 6);
  EXPECT_EQ(layout.size(), layout.trainable() + 6 + 6 + 1);
  const auto role = [&](const char* name) { return layout.find(name)->role; };
  EXPECT_EQ(role("weight"), Role::weight);
  EXPECT_EQ(role("bias"), Role::bias);
  EXPECT_EQ(role("norm.weight"), Role::norm_scale);
  EXPECT_EQ(role("norm.bias"), Role::norm_shift);
  EXPECT_EQ(role("norm.running_mean"), Role::running_mean);
  EXPECT_EQ(role("norm.running_var"), Role::running_var);
  EXPECT_EQ(role("norm.num_batches_tracked"), Role::counter);
  // The module's own initial weights.
  torch::manual_seed(3);
  const auto weight = torch::randn({4, 6});
  EXPECT_EQ(copy(layout.find("weight")->of(model->parameters())), copy({weight.data_ptr<float>(), 24}));
  EXPECT_EQ(layout.find("norm.running_var")->of(model->parameters())[0], 1.0f);
}

TEST_F(Script, GradientAgreesWithCentralDifferences) {
  save();
  const auto model = load();
  EXPECT_LT(gradient_error(*model, RandomBatch(9, task_).get(), 4e-3), 1e-3);
}

TEST_F(Script, BuffersLiveInTheFlatWeights) {
  save();
  const auto model = load();
  const auto fresh = copy(model->parameters());
  const RandomBatch batch(9, task_);
  const auto before = predict(*model, batch.get());
  model->backward(batch.get());
  model->backward(batch.get());
  const auto& layout = model->layout();
  const auto counter = layout.find("norm.num_batches_tracked")->of(model->parameters());
  EXPECT_EQ(counter[0], 2.0f);
  EXPECT_NE(layout.find("norm.running_mean")->of(model->parameters())[0], 0.0f);
  EXPECT_NE(predict(*model, batch.get()), before);
  EXPECT_EQ(counter[0], 2.0f);
  for (std::size_t i = layout.trainable(); i < layout.size(); ++i) {
    EXPECT_EQ(model->gradients()[i], 0.0f);
  }
  // The next client starts from the weights it is given, with nothing left of the last one.
  std::copy(fresh.begin(), fresh.end(), model->parameters().begin());
  EXPECT_EQ(predict(*model, batch.get()), before);
  model->backward(batch.get());
  EXPECT_EQ(counter[0], 1.0f);
}

TEST_F(Script, TrainsLikeItsFormula) {
  save();
  const auto model = load();
  const RandomBatch batch(64, task_);
  const double first = model->backward(batch.get());
  double last = first;
  for (int step = 0; step < 50; ++step) {
    for (std::size_t i = 0; i < model->layout().trainable(); ++i) {
      model->parameters()[i] -= 0.1f * model->gradients()[i];
    }
    last = model->backward(batch.get());
  }
  EXPECT_LT(last, 0.8 * first);
}

TEST_F(Script, WithDropoutIsExclusiveAndFollowsItsStream) {
  save("return torch.dropout(y, 0.5, self.training)");
  const auto model = load();
  EXPECT_TRUE(model->exclusive());
  const RandomBatch batch(9, task_);
  const auto draw = [&](std::uint64_t client) {
    model->reseed(Stream(1, "noise", 0, client));
    return model->backward(batch.get());
  };
  const double first = draw(1);
  EXPECT_NE(draw(2), first);
  EXPECT_EQ(draw(1), first);
  EXPECT_EQ(predict(*model, batch.get()), predict(*model, batch.get()));
}

TEST_F(Script, RepeatsItsBitsHoweverOftenItHasRun) {
  save("return torch.tanh(torch.sigmoid(y) * 2.0 + y)");
  const auto fresh = load(), worn = load();
  const RandomBatch batch(9, task_), other(5, task_, 2);
  const auto start = copy(worn->parameters());
  for (int i = 0; i < 5; ++i) worn->backward(other.get());
  std::copy(start.begin(), start.end(), worn->parameters().begin());
  EXPECT_EQ(fresh->backward(batch.get()), worn->backward(batch.get()));
  EXPECT_EQ(copy(fresh->gradients()), copy(worn->gradients()));
}

TEST_F(Script, RefusesWhatIsNoTorchScript) {
  EXPECT_EQ(refusal([&] { load(); }), "model.path: " + path() + ": no such file");
  std::ofstream(path()) << "not a network";
  EXPECT_NE(refusal([&] { load(); }).find("not a TorchScript file; save it"), std::string::npos);
  EXPECT_NE(refusal([&] { make("torchscript", "auto", task_); }).find("needs a file saved"), std::string::npos);
}

TEST(ScriptRefusal, NamesTheOperatorAndTheRemedy) {
  const std::string message =
      "\nUnknown builtin op: aten::scaled_dot_product_attention.\nHere are some suggestions: \n";
  const std::string said = newer_than("1.13.0", message);
  EXPECT_NE(said.find("uses aten::scaled_dot_product_attention, which LibTorch 1.13.0 does not know"),
            std::string::npos);
  EXPECT_NE(said.find("scripts/setup --torch current"), std::string::npos);
  EXPECT_EQ(newer_than("1.13.0", "PytorchStreamReader failed reading zip archive"), "");
}

// Its own gradient is no gradient, and nothing else may move it: no weight decay, no evolution.
TEST_F(Script, FrozenParametersAreNotTrained) {
  torch::jit::Module net("Net");
  net.register_parameter("fixed", torch::full({4, 6}, 0.5f).requires_grad_(false), false);
  net.register_parameter("w", torch::ones({3, 4}).requires_grad_(), false);
  net.define("def forward(self, x):\n  return torch.linear(torch.linear(x, self.fixed), self.w)\n");
  net.save(path());
  const Task task{.input_shape = {6}, .outputs = 3};
  const auto model = load(task);
  EXPECT_EQ(model->layout().trainable(), 12u);
  EXPECT_EQ(model->layout().find("fixed")->role, Role::frozen);
  EXPECT_LT(gradient_error(*model, RandomBatch(9, task).get(), 4e-3), 1e-3);
  const auto fixed = model->layout().find("fixed")->of(model->parameters());
  EXPECT_TRUE(std::ranges::all_of(fixed, [](float x) { return x == 0.5f; }));
  std::ranges::fill(fixed, 2.0f);  // what the server sends is used
  const RandomBatch batch(9, task);
  const auto outputs = predict(*model, batch.get());
  EXPECT_NEAR(outputs[0], 4 * 2.0f * std::accumulate(batch.get().inputs.begin(), batch.get().inputs.begin() + 6, 0.0f),
              1e-4);
}

TEST_F(Script, KnowsTiedWeightsAsOne) {
  torch::jit::Module net("Net");
  const auto tied = torch::eye(4).requires_grad_();
  net.register_parameter("first", tied, false);
  net.register_parameter("second", tied, false);
  net.define("def forward(self, x):\n  return torch.linear(torch.linear(x, self.first), self.second)\n");
  net.save(path());
  const Task task{.input_shape = {4}, .outputs = 4};
  const auto model = load(task);
  EXPECT_EQ(model->layout().describe(), "first [4, 4]");
  EXPECT_EQ(model->layout().entries()[0].aliases, std::vector<std::string>{"second"});
  EXPECT_LT(gradient_error(*model, RandomBatch(9, task).get(), 4e-3), 1e-3);
}

TEST_F(Script, RefusesParametersItCannotTrain) {
  torch::jit::Module net("Net");
  net.register_parameter("w", torch::ones({4, 6}, torch::kDouble).requires_grad_(), false);
  net.define("def forward(self, x):\n  return torch.linear(x, self.w)\n");
  net.save(path());
  EXPECT_EQ(refusal([&] { load(); }),
            "model.path: " + path() + ": 'w' is of type Double, expected Float: export the module after net.float()");
  torch::jit::Module frozen("Net");
  frozen.define("def forward(self, x):\n  return x[:, 0:4]\n");
  frozen.save(path());
  EXPECT_NE(refusal([&] { load(); }).find("no parameters that require gradients"), std::string::npos);
}

TEST_F(Script, RefusesAModuleThatLearnsWhileItIsEvaluated) {
  torch::jit::Module net("Net");
  net.register_parameter("w", torch::ones({4, 6}).requires_grad_(), false);
  net.register_buffer("calls", torch::zeros({1}));
  net.define("def forward(self, x):\n  self.calls.add_(1)\n  return torch.linear(x, self.w)\n");
  net.save(path());
  EXPECT_NE(refusal([&] { load(); }).find("changes its buffers in evaluation mode"), std::string::npos);
}

TEST_F(Script, RefusesWhatDoesNotFitTheTask) {
  save("return y", 5);
  EXPECT_EQ(refusal([&] { load(); }),
            "model.path: " + path() +
                ": it gives Float [2, 5] for a batch of 2, but the data asks for Float [2, 4]: make "
                "its last layer 4 wide");
  save("return (y, y)");
  EXPECT_NE(refusal([&] { load(); }).find("expected one tensor"), std::string::npos);
  save();
  const auto message = refusal([&] { load({.input_shape = {7}, .outputs = 4}); });
  EXPECT_TRUE(message.starts_with("model.path: " + path() + ": it cannot take inputs of shape [2, 7]: ")) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace parley
