#include "parley/model/torch/networks.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "parley/model/losses.h"
#include "parley/model/torch/test_tools.h"
#include "parley/model/variational.h"

namespace parley {
namespace {

using testing::copy;
using testing::gradient_error;
using testing::largest_difference;
using testing::make;
using testing::predict;
using testing::RandomBatch;
using testing::RandomText;
using testing::refusal;
using Shapes = std::vector<std::vector<std::int64_t>>;

const Task kGrey{.input_shape = {1, 28, 28}, .outputs = 10};
const Task kColour{.input_shape = {3, 32, 32}, .outputs = 10};
const std::map<std::string, Value> kGroup{{"norm", std::string("group")}};

Shapes shapes_of(const Model& model, Role role) {
  Shapes shapes;
  for (const auto& entry : model.layout().entries()) {
    if (entry.role == role) shapes.push_back(entry.shape);
  }
  return shapes;
}

std::size_t floats_of(const Model& model, Role role) {
  std::size_t count = 0;
  for (const auto& entry : model.layout().entries()) count += entry.role == role ? entry.size : 0;
  return count;
}

TEST(LeNet, HasTheShapesOfTable2) {
  const auto model = make("lenet", "auto", kGrey);
  EXPECT_EQ(
      shapes_of(*model, Role::weight),
      (Shapes{{16, 1, 5, 5}, {16, 16, 5, 5}, {32, 16, 5, 5}, {32, 32, 5, 5}, {512, 1568}, {128, 512}, {10, 128}}));
  EXPECT_EQ(shapes_of(*model, Role::norm_scale), (Shapes{{16}, {16}, {32}, {32}}));
  EXPECT_EQ(shapes_of(*model, Role::bias), (Shapes{{512}, {128}, {10}}));
}

TEST(Cnn4, HasTheShapesOfTable3) {
  const auto model = make("cnn4", "auto", kColour);
  EXPECT_EQ(shapes_of(*model, Role::weight),
            (Shapes{{32, 3, 5, 5}, {32, 32, 5, 5}, {64, 32, 3, 3}, {64, 64, 5, 5}, {128, 1024}, {10, 128}}));
  EXPECT_EQ(shapes_of(*model, Role::norm_scale), (Shapes{{32}, {32}, {64}, {64}}));
  EXPECT_EQ(shapes_of(*model, Role::bias), (Shapes{{128}, {10}}));
}

TEST(ResNet18, HasTheShapesOfTable4) {
  Shapes expected{{64, 3, 3, 3}};
  std::int64_t in = 64;
  for (const std::int64_t out : {64, 128, 256, 512}) {
    expected.push_back({out, in, 3, 3});
    for (int i = 0; i < 3; ++i) expected.push_back({out, out, 3, 3});
    in = out;
  }
  expected.push_back({10, 512});
  EXPECT_EQ(shapes_of(*make("resnet18", "auto", kColour), Role::weight), expected);
}

struct Count {
  std::string model;
  Task task;
  std::size_t trainable, norm_channels, norms;
};

void check(const Count& count) {
  SCOPED_TRACE(count.model);
  const auto model = make(count.model, "auto", count.task);
  EXPECT_EQ(model->layout().trainable(), count.trainable);
  for (const Role role : {Role::norm_scale, Role::norm_shift, Role::running_mean, Role::running_var}) {
    EXPECT_EQ(floats_of(*model, role), count.norm_channels);
  }
  EXPECT_EQ(floats_of(*model, Role::counter), count.norms);
  EXPECT_EQ(model->layout().size(), count.trainable + 2 * count.norm_channels + count.norms);
}

// By hand from the tables: Σ convolutions + 2 · Σ norms + Σ (in + 1) · out of the dense layers. DenseNet121 and
// MobileNetV2: what the PyTorch code that FeDEC points to counts.
TEST(Networks, HaveTheParametersOfTheirTables) {
  check({"lenet", kGrey, 45200 + 192 + 1569 * 512 + 513 * 128 + 129 * 10, 96, 4});
  check({"cnn4", kColour, 148832 + 384 + 1025 * 128 + 129 * 10, 192, 4});
  check({"resnet18", kColour, 10987200 + 7808 + 513 * 10, 3904, 17});
  check({"densenet121", kColour, 6956298, 41760, 120});
  check({"mobilenetv2", kColour, 2296922, 17544, 57});
  check({"bilstm", {.input_shape = {12}, .outputs = 2}, 2000000 + 733184 + 1576960 + 513 * 2, 0, 0});
  check({"shallow_convnet", {.input_shape = {64, 256}, .outputs = 2}, 40 * 26 + 40 * 40 * 64 + 80 + 441 * 2, 40, 1});
}

TEST(GroupNorm, HasNoStatistics) {
  const auto model = make("lenet", "auto", kGrey, kGroup);
  EXPECT_EQ(model->layout().size(), make("lenet", "auto", kGrey)->layout().trainable());
  EXPECT_EQ(model->layout().size(), model->layout().trainable());
}

// ---- Gradients ----

// |ΔL − g·Δθ| / |g·Δθ| for a small Δθ along the gradient g of some of the parameters; not a number when g is zero.
// (Along a single weight of a deep network the loss does not move enough for floats.)
double directional_error(Model& model, const Batch& batch, const LayoutEntry& part) {
  model.backward(batch);
  const auto gradient = copy(part.of(model.gradients())), start = copy(part.of(model.parameters()));
  double square = 0.0;
  for (const float g : gradient) square += static_cast<double>(g) * g;
  const double step = 5e-5 / square;  // the loss moves by 1e-4: far above rounding, before curvature and kinks count
  double loss_moves = 0.0, expected = 0.0;
  for (const double side : {1.0, -1.0}) {
    const auto values = part.of(model.parameters());
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(start[i] + side * step * gradient[i]);
      expected += side * gradient[i] * values[i];
    }
    loss_moves += side * model.backward(batch);
    std::copy(start.begin(), start.end(), values.begin());
  }
  return std::abs(loss_moves - expected) / std::abs(expected);
}

TEST(Networks, GradientAgreesWithCentralDifferences) {
  const Task task{.input_shape = {2, 20, 20}, .outputs = 3};
  const RandomBatch batch(4, task);
  const std::pair<std::string, std::string> networks[] = {
      {"lenet", "batch"},    {"lenet", "each_batch"},  {"lenet", "group"},       {"cnn4", "batch"},
      {"resnet18", "batch"}, {"densenet121", "batch"}, {"mobilenetv2", "batch"}, {"mobilenetv2", "group"}};
  for (const auto& [name, norm] : networks) {
    SCOPED_TRACE(name + ", norm = " + norm);
    const auto model = make(name, "auto", task, {{"norm", norm}});
    EXPECT_LT(directional_error(*model, batch.get(), {.size = model->layout().trainable()}), 0.02);
    for (const auto& entry : model->layout().entries()) {
      const auto gradient = entry.of(model->gradients());
      EXPECT_EQ(std::any_of(gradient.begin(), gradient.end(), [](float g) { return g != 0.0f; }),
                is_trainable(entry.role))
          << entry.name;
    }
  }
}

TEST(ShallowConvNet, GradientOfEveryPartAgreesWithCentralDifferences) {
  const Task task{.input_shape = {5, 40}, .outputs = 2};
  const RandomBatch batch(6, task);
  const auto model = make("shallow_convnet", "auto", task,
                          {{"filters", std::int64_t{3}},
                           {"kernel", std::int64_t{7}},
                           {"pool", std::int64_t{10}},
                           {"pool_stride", std::int64_t{5}}});
  for (const auto& entry : model->layout().entries()) {
    // A bias of the filters in time is taken away again by the norm behind them.
    if (!is_trainable(entry.role) || entry.name == "time.bias") continue;
    EXPECT_LT(directional_error(*model, batch.get(), entry), 0.02) << entry.name;
  }
}

TEST(ShallowConvNet, RefusesTrialsTooShortForItsWindows) {
  EXPECT_EQ(refusal([] {
              make("shallow_convnet", "auto", {.input_shape = {64, 90}, .outputs = 2});
            }),
            "model shallow_convnet: a trial has 90 samples, but model.kernel and model.pool need 99; lower them");
}

TEST(LeNet, GradientOfEveryPartAgreesWithCentralDifferences) {
  const Task task{.input_shape = {1, 8, 8}, .outputs = 3};
  const RandomBatch batch(4, task);
  const auto model = make("lenet", "auto", task);
  for (const auto& entry : model->layout().entries()) {
    if (!is_trainable(entry.role)) continue;
    EXPECT_LT(directional_error(*model, batch.get(), entry), 0.02) << entry.name;
  }
}

// ---- Norms ----

class BatchNorm : public ::testing::Test {
 protected:
  Task task_{.input_shape = {2, 8, 8}, .outputs = 3};
  std::unique_ptr<Model> model_ = make("lenet", "auto", task_);

  std::span<float> part(const std::string& name) { return model_->layout().find(name)->of(model_->parameters()); }
  torch::Tensor tensor(const std::string& name) {
    return torch::tensor(copy(part(name))).view(model_->layout().find(name)->shape);
  }
};

TEST_F(BatchNorm, MovesItsStatisticsAsPyTorchDoes) {
  torch::nn::BatchNorm2d reference(16);
  for (const std::uint64_t seed : {1, 2}) {
    const RandomBatch batch(5, task_, seed);
    const auto inputs = torch::tensor(copy(batch.get().inputs)).view({5, 2, 8, 8});
    reference(torch::conv2d(inputs, tensor("conv1.conv.weight"), {}, 1, 2));
    model_->backward(batch.get());
  }
  EXPECT_TRUE(torch::allclose(tensor("conv1.norm.running_mean"), reference->running_mean, 1e-5, 1e-7));
  EXPECT_TRUE(torch::allclose(tensor("conv1.norm.running_var"), reference->running_var, 1e-5, 1e-7));
  EXPECT_EQ(part("conv1.norm.num_batches_tracked")[0], 2.0f);
}

TEST_F(BatchNorm, PredictsByRunningStatisticsAndLeavesThemAlone) {
  const RandomBatch batch(5, task_), other(5, task_, 2);
  const auto before = predict(*model_, batch.get());
  model_->backward(other.get());
  const auto trained = copy(model_->parameters());
  EXPECT_GT(largest_difference(predict(*model_, batch.get()), before), 1e-3);
  EXPECT_EQ(copy(model_->parameters()), trained);
  // Each example by itself: in prediction a batch has no say.
  const auto together = predict(*model_, batch.get());
  const auto alone = predict(*model_, {.size = 1, .inputs = batch.get().inputs.first(2 * 8 * 8)});
  EXPECT_LT(largest_difference(alone, together), 1e-5);
  // Nothing of it is a gradient.
  for (const float g : model_->gradients().subspan(model_->layout().trainable())) EXPECT_EQ(g, 0.0f);
}

TEST_F(BatchNorm, RefusesABatchOfOneWhereItHasNoVariance) {
  // conv4 sees 2 × 2 positions of an 8 × 8 image, and a single one of a 4 × 4.
  EXPECT_NO_THROW(model_->backward(RandomBatch(1, task_).get()));
  const Task tiny{.input_shape = {2, 4, 4}, .outputs = 3};
  const auto model = make("lenet", "auto", tiny);
  EXPECT_NO_THROW(model->backward(RandomBatch(2, tiny).get()));
  EXPECT_EQ(refusal<RefusedUpdate>([&] { model->backward(RandomBatch(1, tiny).get()); }),
            "model.norm: a batch of one leaves batch norm a single value for each channel, which has no variance: "
            "choose client.batch so that no client is left with a batch of one, or model.norm = \"group\"");
  EXPECT_NO_THROW(predict(*model, RandomBatch(1, tiny).get()));
  EXPECT_NO_THROW(make("lenet", "auto", tiny, kGroup)->backward(RandomBatch(1, tiny).get()));
}

// What is predicted is what was trained: the outputs of a batch by its own statistics, which nothing is kept of.
TEST_F(BatchNorm, OverEachBatchPredictsAsItTrains) {
  for (const std::string backend : {"native", "torch"}) {
    SCOPED_TRACE(backend);
    const std::map<std::string, Value> each{{"norm", std::string("each_batch")}};
    const auto model = make("lenet", backend, task_, each), running = make("lenet", backend, task_);
    EXPECT_TRUE(std::ranges::all_of(model->layout().entries(), [](const auto& e) { return is_trainable(e.role); }));
    const RandomBatch batch(40, task_);
    const auto outputs = predict(*model, batch.get());
    // With running statistics as they begin (0 and 1) the same weights answer something else.
    EXPECT_GT(largest_difference(predict(*running, batch.get()), outputs), 1e-3);
    // The loss of the training pass is that of these outputs.
    std::vector<float> copied = outputs;
    double loss = 0.0;
    for (std::size_t i = 0; i < 40; ++i) {
      const auto row = std::span(copied).subspan(i * 3, 3);
      softmax(row);
      loss -= std::log(row[static_cast<std::size_t>(batch.get().labels[i])]) / 40;
    }
    EXPECT_NEAR(model->backward(batch.get()), loss, 1e-5);
    // An example is answered in the light of the others.
    const auto half = predict(*model, {.size = 20, .inputs = batch.get().inputs.first(20 * 2 * 8 * 8)});
    EXPECT_GT(largest_difference(half, std::span(outputs).first(half.size())), 1e-3);
  }
}

TEST(GroupNorm, KeepsExamplesApart) {
  const Task task{.input_shape = {1, 8, 8}, .outputs = 3};
  const auto model = make("lenet", "auto", task, kGroup);
  const RandomBatch batch(4, task);
  const auto together = predict(*model, batch.get());
  const auto alone = predict(*model, {.size = 1, .inputs = batch.get().inputs.first(64)});
  EXPECT_LT(largest_difference(alone, together), 1e-5);
}

TEST(ImageNetworks, RefuseWhatTheyCannotTake) {
  EXPECT_EQ(refusal([] { make("cnn4", "auto", kGrey); }), "(accepted)");
  EXPECT_EQ(refusal([] {
              make("cnn4", "auto", {.input_shape = {1, 32, 19}, .outputs = 10});
            }),
            "model.name: 'cnn4' needs images of shape [channels, height, width], at least 20 x 20; the data has "
            "[1, 32, 19]: choose 'mlp' or image data");
  for (const auto* name : {"lenet", "resnet18", "densenet121", "mobilenetv2"}) {
    EXPECT_NE(refusal([&] { make(name, "auto", {.input_shape = {561}, .outputs = 6}); }), "(accepted)") << name;
  }
}

// ---- BiLSTM ----

class BiLstm : public ::testing::Test {
 protected:
  static Task task(std::int64_t tokens) { return {.input_shape = {tokens}, .outputs = 2}; }
  static std::unique_ptr<Model> network(std::int64_t tokens) {
    return make("bilstm", "auto", task(tokens),
                {{"vocabulary", std::int64_t{9}}, {"embedding", std::int64_t{5}}, {"hidden", std::int64_t{4}}});
  }

  std::vector<std::int32_t> labels_{0, 1, 1};
  // The second text has padding behind it, the last is empty.
  std::vector<float> ids_{1, 8, 3, 4, 5, 2, 0, 0, 0, 0, 0, 0};
  Batch batch_{.size = 3, .inputs = ids_, .labels = labels_};
};

TEST_F(BiLstm, GradientAgreesWithCentralDifferences) {
  EXPECT_LT(testing::gradient_error(*network(4), batch_, 1e-2, 7), 1e-2);
}

TEST_F(BiLstm, DoesNotReadPadding) {
  const std::vector<float> padded{1, 8, 3, 4, 0, 0, 5, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  const auto expected = predict(*network(4), batch_);
  EXPECT_LT(largest_difference(predict(*network(6), {.size = 3, .inputs = padded}), expected), 1e-6);
  // The order of the texts is kept, though the longest is computed first.
  const auto model = network(4);
  const auto second = predict(*model, {.size = 1, .inputs = batch_.inputs.subspan(4, 4)});
  EXPECT_LT(largest_difference(second, std::span(expected).subspan(2, 2)), 1e-6);
}

TEST_F(BiLstm, RefusesTokensOutsideItsVocabulary) {
  const auto model = network(4);
  ids_[2] = 9;
  EXPECT_EQ(refusal<RunError>([&] { model->backward(batch_); }),
            "model.vocabulary = 9: the data has a token 9, expected 0 (padding) to 8: raise model.vocabulary");
  ids_[2] = -1;
  EXPECT_NE(refusal<RunError>([&] { predict(*model, batch_); }).find("a token -1"), std::string::npos);
}

TEST_F(BiLstm, TakesRowsOfTokensOnly) {
  EXPECT_EQ(refusal([] { make("bilstm", "auto", kGrey); }),
            "model.name: 'bilstm' needs rows of token ids, shape [tokens]; the data has [1, 28, 28]: choose text data");
}

TEST(CharLstm, HasTheShapesOfThePaper) {
  const auto model = make("char_lstm", "auto", {.input_shape = {80}, .outputs = 81});
  EXPECT_EQ(model->layout().find("embedding.weight")->shape, (std::vector<std::int64_t>{81, 8}));
  EXPECT_EQ(model->layout().find("lstm.weight_hh_l1")->shape, (std::vector<std::int64_t>{400, 100}));
  EXPECT_EQ(model->layout().find("fc.weight")->shape, (std::vector<std::int64_t>{81, 100}));
}

class CharLstmEverywhere : public ::testing::Test {
 protected:
  static std::unique_ptr<Model> network(const char* loss_at, std::int64_t vocabulary = 7) {
    return make("char_lstm", "auto", {.input_shape = {4}, .outputs = 6},
                {{"vocabulary", vocabulary},
                 {"embedding", std::int64_t{3}},
                 {"hidden", std::int64_t{4}},
                 {"loss_at", std::string(loss_at)}});
  }

  std::vector<float> ids_{1, 4, 2, 6, 5, 2, 0, 0};
  std::vector<std::int32_t> labels_{3, 1};
  Batch batch_{.size = 2, .inputs = ids_, .labels = labels_};
};

// A row of T characters is T texts, each with its next character as label. A token is its class + 1.
TEST_F(CharLstmEverywhere, IsTheMeanOverAllBeginningsOfTheRows) {
  const std::vector<float> beginnings{1, 0, 0, 0, 1, 4, 0, 0, 1, 4, 2, 0, 1, 4, 2, 6, 5, 0, 0, 0, 5, 2, 0, 0};
  const std::vector<std::int32_t> next{3, 1, 5, 3, 1, 1};
  const auto one = network("last"), every = network("every");
  const double expected = one->backward({.size = 6, .inputs = beginnings, .labels = next});
  EXPECT_NEAR(every->backward(batch_), expected, 1e-6);
  EXPECT_LT(largest_difference(every->gradients(), one->gradients()), 1e-6);
}

TEST_F(CharLstmEverywhere, IsAskedForTheLastCharacterInTests) {
  EXPECT_EQ(predict(*network("every"), batch_), predict(*network("last"), batch_));
}

TEST_F(CharLstmEverywhere, RefusesTokensThatAreNotTheClasses) {
  EXPECT_EQ(
      refusal([] { network("every", 6); }),
      "model.loss_at = \"every\": each token must be one of the classes to tell, as in shakespeare, where token = "
      "class + 1 and vocabulary = classes + 1; vocabulary is 6, and the data asks for 6 outputs: use \"last\"");
}

std::unique_ptr<Variational> gaussian(const std::string& name, const Task& task, float rho,
                                      const std::map<std::string, Value>& options = {}) {
  auto network = make(name, "torch", task, options);
  const auto means = copy(network->parameters().first(network->layout().trainable()));
  auto model = make_variational(std::move(network), false);
  std::ranges::copy(means, model->means().begin());
  std::ranges::fill(model->rhos(), rho);
  return model;
}

// An LSTM's weights are drawn, the dense layer's outputs behind it are.
TEST(GaussianWeights, OfAnLstmHaveTheGradientOfTheirDraw) {
  const Task task{.input_shape = {5}, .outputs = 3};
  const auto model =
      gaussian("char_lstm", task, -2.0f,
               {{"vocabulary", std::int64_t{7}}, {"embedding", std::int64_t{3}}, {"hidden", std::int64_t{4}}});
  EXPECT_LT(gradient_error(*model, RandomText(4, task, 7).get(), 1e-2, 7), 5e-3);
}

TEST(GaussianWeights, OfConvolutionsHaveTheGradientOfTheirOutputs) {
  const Task task{.input_shape = {1, 8, 8}, .outputs = 3};
  const auto model = gaussian("cnn_mnist", task, -2.0f);
  double error = 1.0;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {  // the best of a few: a relu's kink is no derivative
    error = std::min(error, gradient_error(*model, RandomBatch(2, task, seed).get(), 1e-2, 9973));
  }
  EXPECT_LT(error, 3e-2);
}

TEST(GaussianWeights, WithoutWidthPredictAsTheNetwork) {
  for (const auto* name : {"cnn_mnist", "lenet"}) {
    auto network = make(name, "torch", kGrey);
    const RandomBatch batch(4, kGrey);
    const auto expected = predict(*network, batch.get());
    const auto model = make_variational(std::move(network), false);
    const auto plain = make(name, "torch", kGrey);  // the same fresh weights
    std::ranges::copy(plain->parameters().first(model->gaussians()), model->means().begin());
    std::ranges::copy(plain->parameters().subspan(model->gaussians()),
                      model->parameters().begin() + static_cast<std::ptrdiff_t>(2 * model->gaussians()));
    std::ranges::fill(model->rhos(), -20.0f);
    EXPECT_LT(largest_difference(predict(*model, batch.get()), expected), 1e-5) << name;
  }
}

}  // namespace
}  // namespace parley
