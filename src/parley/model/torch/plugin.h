// What the program asks of libparley_torch.so. LibTorch takes 0.4 s to load, so it is loaded when a model of its own is
// made, and not for `parley list`, `parley data show` or a native model.
#pragma once

#include <string>

#include "parley/model/model.h"

namespace parley {

// Makes a model by the name that torch_models.cc registers it by. Throws as MakeModel does. The caller owns it.
using MakeTorchModel = Model*(const std::string& name, const Options& options, const Task& task);
inline constexpr const char* kTorchPlugin = "libparley_torch.so";
inline constexpr const char* kMakeTorchModel = "parley_make_torch_model";

}  // namespace parley
