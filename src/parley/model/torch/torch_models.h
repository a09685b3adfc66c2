// The models that run on LibTorch. This header is the whole door: no file outside model/torch sees
// a torch header.
#pragma once

#include <string>

#include "parley/model/model.h"

namespace parley {

// Adds the networks of model/torch and `torchscript`, and the backend "torch" of `mlp`.
void add_torch_models(ModelRegistry& registry);

// Of LibTorch as the program was built against it, "1.13.0".
std::string torch_version();

// One line for the user when LibTorch multiplies matrices with something other than OpenBLAS
// (Debian falls back on the reference BLAS, which is many times slower); otherwise "".
std::string torch_blas_warning();

}  // namespace parley
