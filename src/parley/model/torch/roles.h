// What a module's parameters and buffers are, by PyTorch's names for them.
#pragma once

#include <torch/torch.h>

#include <string>

#include "parley/tensor/layout.h"

namespace parley {

// Recurrent layers have several of each: "bias_ih_l0".
inline Role parameter_role(const std::string& name, bool of_norm) {
  const bool bias = name.find("bias") != std::string::npos;
  if (of_norm) return bias ? Role::norm_shift : Role::norm_scale;
  return bias ? Role::bias : Role::weight;
}

// What is measured but not known by name is averaged like a mean.
inline Role buffer_role(const std::string& name, const torch::Tensor& buffer) {
  if (!buffer.is_floating_point()) return Role::counter;
  return name.ends_with("running_var") ? Role::running_var : Role::running_mean;
}

}  // namespace parley
