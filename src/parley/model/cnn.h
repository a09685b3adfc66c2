// Small convolutional networks: `cnn_mnist`, `cnn_cifar`, `lenet` and `cnn4` are one class, on oneDNN.
//
// Names and shapes are those of the LibTorch networks (conv1.conv.weight [out, in, kernel, kernel], fc1.weight, …), so
// that weights go back and forth by name. The bits of a step depend on its inputs alone, not on the thread it runs on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parley/model/model.h"

namespace parley {

// What is normalised together: a channel of the training batch (in prediction the running statistics stand for it), a
// channel of any batch, or eight channels of an example.
enum class NormKind { batch, each_batch, group };
inline constexpr std::int64_t kChannelsPerGroup = 8;  // of a group norm; divides the width of every network here
inline constexpr double kNormEpsilon = 1e-5, kNormMomentum = 0.1;  // PyTorch's

// A convolution of stride 1 with relu, perhaps pooled.
struct ConvRow {
  std::int64_t out, kernel, padding;
  bool pool;  // 2 × 2, stride 2

  std::int64_t size_behind(std::int64_t size) const { return (size + 2 * padding - kernel + 1) / (pool ? 2 : 1); }
};

// Rows of convolutions, then dense layers with relu between them; shared with the LibTorch backend.
struct CnnPlan {
  std::vector<ConvRow> convolutions;
  std::vector<std::int64_t> hidden;
  std::optional<NormKind> norm = std::nullopt;  // behind each convolution; without one they have biases
  std::int64_t least_size = 4;                  // of an image, either way
};

CnnPlan mcmahan_cnn();
CnnPlan lenet(NormKind norm);
CnnPlan cnn4(NormKind norm);

// The task with its inputs as [channels, height, width]; images without a channel extent have one channel. Throws
// InputError for inputs that are no images, or smaller than `least_size` either way.
Task as_images(const std::string& name, const Task& task, std::int64_t least_size);
// The option that a network with norms has, and its value.
Option norm_option();
NormKind norm_of(const Options& options);
// Throws RefusedUpdate: a training batch has left batch norm a single value for each channel.
[[noreturn]] void refuse_single_value();

std::unique_ptr<Model> make_native_cnn(const CnnPlan& plan, const Task& image);
void add_cnns(ModelRegistry& registry);

}  // namespace parley
