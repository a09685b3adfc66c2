// The networks written here, on LibTorch's operators.
#pragma once

#include <memory>

#include "parley/model/mlp.h"
#include "parley/model/model.h"

namespace parley {

// The same layout, numbers and dropout noise as the native mlp, up to rounding.
std::unique_ptr<Model> make_torch_mlp(const Options& options, const Task& task);
// McMahan et al. 2017: 5×5 convolutions of 32 and 64 channels (same padding), each with relu and
// 2×2 pooling, a layer of 512, the outputs. Throws InputError for inputs that are no images.
std::unique_ptr<Model> make_torch_cnn(const std::string& name, const Task& task);

}  // namespace parley
