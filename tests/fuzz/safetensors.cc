#include "parley/tensor/safetensors.h"
#include "fuzz.h"

PARLEY_FUZZ_TARGET([](std::string_view text) {
  for (const auto& [name, tensor] : parley::parse_safetensors(text, "input").tensors) {
    std::size_t count = 1;
    for (const auto extent : tensor.shape) count *= static_cast<std::size_t>(extent);
    if (count != tensor.values.size()) __builtin_trap();
  }
})
